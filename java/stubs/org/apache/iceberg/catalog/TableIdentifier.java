package org.apache.iceberg.catalog;

/** What Iceberg's class has that ours are compiled against. */
public class TableIdentifier {
  private TableIdentifier() {}

  public static TableIdentifier of(String... names) {
    throw new UnsupportedOperationException(names[0]);
  }

  public String name() {
    throw new UnsupportedOperationException();
  }
}
