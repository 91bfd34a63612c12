package org.apache.iceberg.io;

/** What Iceberg's interface has that ours are compiled against. */
public interface SupportsPrefixOperations extends FileIO {
  Iterable<FileInfo> listPrefix(String prefix);
}
