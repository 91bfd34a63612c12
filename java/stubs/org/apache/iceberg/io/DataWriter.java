package org.apache.iceberg.io;

/** What Iceberg's class has that ours are compiled against. */
public abstract class DataWriter<T> implements FileWriter<T, DataWriteResult> {
  private DataWriter() {}
}
