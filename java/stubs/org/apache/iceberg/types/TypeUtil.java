package org.apache.iceberg.types;

import org.apache.iceberg.Schema;

/** What Iceberg's class has that ours are compiled against. */
public class TypeUtil {
  private TypeUtil() {}

  public static Schema assignIncreasingFreshIds(Schema schema) {
    throw new UnsupportedOperationException();
  }
}
