package org.apache.iceberg.io;

import org.apache.iceberg.Schema;

/** What Iceberg's class has that ours are compiled against. */
public class DeleteSchemaUtil {
  private DeleteSchemaUtil() {}

  public static Schema pathPosSchema() {
    throw new UnsupportedOperationException();
  }
}
