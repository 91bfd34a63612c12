package org.apache.iceberg;

import java.util.Map;

/** What Iceberg's interface has that ours are compiled against. */
public interface Snapshot {
  long snapshotId();

  Map<String, String> summary();
}
