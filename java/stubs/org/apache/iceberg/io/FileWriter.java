package org.apache.iceberg.io;

import java.io.Closeable;

/** What Iceberg's interface has that ours are compiled against. */
public interface FileWriter<T, R> extends Closeable {
  default void write(Iterable<T> rows) {
    throw new UnsupportedOperationException();
  }

  R result();
}
