package org.apache.iceberg;

import java.util.List;
import java.util.Map;
import org.apache.iceberg.io.FileIO;

/** What Iceberg's interface has that ours are compiled against. */
public interface Snapshot {
  long snapshotId();

  long sequenceNumber();

  Long parentId();

  String operation();

  Map<String, String> summary();

  List<ManifestFile> allManifests(FileIO io);

  String manifestListLocation();

  Iterable<DataFile> addedDataFiles(FileIO io);

  Iterable<DataFile> removedDataFiles(FileIO io);

  default Iterable<DeleteFile> addedDeleteFiles(FileIO io) {
    throw new UnsupportedOperationException();
  }

  default Iterable<DeleteFile> removedDeleteFiles(FileIO io) {
    throw new UnsupportedOperationException();
  }
}
