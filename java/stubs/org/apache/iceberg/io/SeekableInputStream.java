package org.apache.iceberg.io;

import java.io.IOException;
import java.io.InputStream;

/** What Iceberg's class has that ours are compiled against. */
public abstract class SeekableInputStream extends InputStream {
  public SeekableInputStream() {}

  public abstract long getPos() throws IOException;

  public abstract void seek(long newPos) throws IOException;
}
