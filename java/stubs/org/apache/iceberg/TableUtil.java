package org.apache.iceberg;

/** What Iceberg's class has that ours are compiled against. */
public class TableUtil {
  private TableUtil() {}

  public static String metadataFileLocation(Table table) {
    throw new UnsupportedOperationException();
  }
}
