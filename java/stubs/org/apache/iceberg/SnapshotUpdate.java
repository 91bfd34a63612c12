package org.apache.iceberg;

import java.util.concurrent.ExecutorService;

/** What Iceberg's interface has that ours are compiled against. */
public interface SnapshotUpdate<ThisT> extends PendingUpdate<Snapshot> {
  ThisT set(String property, String value);

  ThisT scanManifestsWith(ExecutorService executorService);

  default ThisT toBranch(String branch) {
    throw new UnsupportedOperationException();
  }
}
