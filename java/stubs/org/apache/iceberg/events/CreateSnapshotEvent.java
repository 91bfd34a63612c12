package org.apache.iceberg.events;

/** What Iceberg's class has that ours are compiled against. */
public final class CreateSnapshotEvent {
  private CreateSnapshotEvent() {}

  public String tableName() {
    throw new UnsupportedOperationException();
  }
}
