package org.apache.iceberg.io;

import java.io.Closeable;

/** What Iceberg's interface has that ours are compiled against. */
public interface CloseableIterable<T> extends Iterable<T>, Closeable {}
