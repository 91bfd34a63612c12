package org.apache.iceberg.io;

import java.util.List;
import org.apache.iceberg.DeleteFile;

/** What Iceberg's class has that ours are compiled against. */
public class DeleteWriteResult {
  private DeleteWriteResult() {}

  public List<DeleteFile> deleteFiles() {
    throw new UnsupportedOperationException();
  }
}
