package org.apache.iceberg;

import java.util.List;

/** What Iceberg's interface has that ours are compiled against. */
public interface FileScanTask extends ContentScanTask<DataFile> {
  List<DeleteFile> deletes();

  default long sizeBytes() {
    throw new UnsupportedOperationException();
  }
}
