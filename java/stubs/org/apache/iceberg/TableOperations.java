package org.apache.iceberg;

import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** What Iceberg's interface has that ours are compiled against. */
public interface TableOperations {
  TableMetadata current();

  TableMetadata refresh();

  void commit(TableMetadata base, TableMetadata metadata);

  FileIO io();

  default EncryptionManager encryption() {
    throw new UnsupportedOperationException();
  }

  String metadataFileLocation(String fileName);

  LocationProvider locationProvider();

  default TableOperations temp(TableMetadata uncommittedMetadata) {
    throw new UnsupportedOperationException();
  }

  default long newSnapshotId() {
    throw new UnsupportedOperationException();
  }

  default boolean requireStrictCleanup() {
    throw new UnsupportedOperationException();
  }
}
