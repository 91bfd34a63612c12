package org.apache.iceberg;

/** What Iceberg's enum has that ours are compiled against. */
public enum FileFormat {
  PARQUET;

  public static FileFormat fromString(String fileFormat) {
    throw new UnsupportedOperationException();
  }
}
