package org.apache.iceberg;

import org.apache.iceberg.io.FileIO;

/** What Iceberg's class has that ours are compiled against. */
public class CatalogUtil {
  private CatalogUtil() {}

  public static void deleteFiles(FileIO io, Iterable<String> files, String type) {
    throw new UnsupportedOperationException(type);
  }
}
