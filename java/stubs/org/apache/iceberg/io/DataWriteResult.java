package org.apache.iceberg.io;

import java.util.List;
import org.apache.iceberg.DataFile;

/** What Iceberg's class has that ours are compiled against. */
public class DataWriteResult {
  private DataWriteResult() {}

  public List<DataFile> dataFiles() {
    throw new UnsupportedOperationException();
  }
}
