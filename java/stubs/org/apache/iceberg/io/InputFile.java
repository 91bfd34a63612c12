package org.apache.iceberg.io;

/** What Iceberg's interface has that ours are compiled against. */
public interface InputFile {
  long getLength();

  SeekableInputStream newStream();

  String location();

  boolean exists();
}
