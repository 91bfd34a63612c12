package org.apache.iceberg;

import java.util.Collection;
import java.util.List;
import java.util.Set;
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

  public Types.NestedField findField(String name) {
    throw new UnsupportedOperationException();
  }

  public Types.NestedField findField(int id) {
    throw new UnsupportedOperationException();
  }

  public Types.NestedField caseInsensitiveFindField(String name) {
    throw new UnsupportedOperationException();
  }

  public Set<String> identifierFieldNames() {
    throw new UnsupportedOperationException();
  }

  public Schema select(Collection<String> names) {
    throw new UnsupportedOperationException();
  }
}
