package org.apache.iceberg;

import java.util.List;
import org.apache.iceberg.types.Types;

/** What Iceberg's class has that ours are compiled against. */
public class Schema {
  private Schema() {}

  public int schemaId() {
    throw new UnsupportedOperationException();
  }

  public List<Types.NestedField> columns() {
    throw new UnsupportedOperationException();
  }
}
