package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface TableScan extends Scan<TableScan, FileScanTask, CombinedScanTask> {
  TableScan useSnapshot(long snapshotId);
}
