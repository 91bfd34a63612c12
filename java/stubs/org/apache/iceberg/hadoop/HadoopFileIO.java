package org.apache.iceberg.hadoop;

import java.io.Serializable;
import org.apache.iceberg.io.InputFile;

/** What Iceberg's class has that ours are compiled against. */
public class HadoopFileIO implements Serializable {
  private static final long serialVersionUID = 1;

  public HadoopFileIO() {}

  public InputFile newInputFile(String path) {
    throw new UnsupportedOperationException(path);
  }
}
