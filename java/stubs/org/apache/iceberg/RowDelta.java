package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface RowDelta extends SnapshotUpdate<RowDelta> {
  RowDelta addRows(DataFile inserts);

  RowDelta addDeletes(DeleteFile deletes);

  default RowDelta removeRows(DataFile file) {
    throw new UnsupportedOperationException();
  }

  default RowDelta removeDeletes(DeleteFile deletes) {
    throw new UnsupportedOperationException();
  }
}
