package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface ManifestFile {
  String path();

  Long snapshotId();
}
