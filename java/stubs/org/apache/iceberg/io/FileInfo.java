package org.apache.iceberg.io;

/** What Iceberg's class has that ours are compiled against. */
public class FileInfo {
  public String location() {
    throw new UnsupportedOperationException();
  }
}
