package org.apache.iceberg.encryption;

import org.apache.iceberg.io.FileIO;

/** What Iceberg's class has that ours are compiled against. */
public abstract class EncryptingFileIO implements FileIO {
  private EncryptingFileIO() {}

  public static EncryptingFileIO combine(FileIO io, EncryptionManager em) {
    throw new UnsupportedOperationException();
  }
}
