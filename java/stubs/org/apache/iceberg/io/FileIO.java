package org.apache.iceberg.io;

import java.io.Closeable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;

/** What Iceberg's interface has that ours are compiled against. */
public interface FileIO extends Closeable {
  default InputFile newInputFile(DataFile file) {
    throw new UnsupportedOperationException();
  }

  default InputFile newInputFile(DeleteFile file) {
    throw new UnsupportedOperationException();
  }

  default void deleteFile(String path) {
    throw new UnsupportedOperationException();
  }
}
