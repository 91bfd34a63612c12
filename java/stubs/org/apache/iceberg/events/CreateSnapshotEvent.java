package org.apache.iceberg.events;

import java.util.Map;

/** What Iceberg's class has that ours are compiled against. */
public final class CreateSnapshotEvent {
  public CreateSnapshotEvent(
      String tableName, String operation, long snapshotId, long sequenceNumber, Map<String, String> summary) {
    throw new UnsupportedOperationException(tableName);
  }

  public String tableName() {
    throw new UnsupportedOperationException();
  }
}
