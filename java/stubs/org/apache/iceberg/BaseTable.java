package org.apache.iceberg;

import java.util.Map;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;

/** What Iceberg's class has that ours are compiled against. */
public class BaseTable implements Table, HasTableOperations {
  public BaseTable(TableOperations ops, String name) {
    throw new UnsupportedOperationException(name);
  }

  public String name() {
    throw new UnsupportedOperationException();
  }

  @Override
  public TableOperations operations() {
    throw new UnsupportedOperationException();
  }

  @Override
  public void refresh() {
    throw new UnsupportedOperationException();
  }

  @Override
  public TableScan newScan() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Schema schema() {
    throw new UnsupportedOperationException();
  }

  @Override
  public PartitionSpec spec() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Map<String, String> properties() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Snapshot currentSnapshot() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Snapshot snapshot(long snapshotId) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Map<String, SnapshotRef> refs() {
    throw new UnsupportedOperationException();
  }

  @Override
  public AppendFiles newFastAppend() {
    throw new UnsupportedOperationException();
  }

  @Override
  public RowDelta newRowDelta() {
    throw new UnsupportedOperationException();
  }

  @Override
  public FileIO io() {
    throw new UnsupportedOperationException();
  }

  @Override
  public EncryptionManager encryption() {
    throw new UnsupportedOperationException();
  }
}
