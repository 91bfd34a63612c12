package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface ContentScanTask<F extends ContentFile<F>> extends ScanTask {
  F file();
}
