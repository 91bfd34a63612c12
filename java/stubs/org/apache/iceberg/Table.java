package org.apache.iceberg;

import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;

/** What Iceberg's interface has that ours are compiled against. */
public interface Table {
  default String name() {
    throw new UnsupportedOperationException();
  }

  void refresh();

  TableScan newScan();

  default String location() {
    throw new UnsupportedOperationException();
  }

  Schema schema();

  PartitionSpec spec();

  Map<String, String> properties();

  Snapshot currentSnapshot();

  Snapshot snapshot(long snapshotId);

  Map<String, SnapshotRef> refs();

  AppendFiles newFastAppend();

  RowDelta newRowDelta();

  FileIO io();

  EncryptionManager encryption();

  default UUID uuid() {
    throw new UnsupportedOperationException();
  }
}
