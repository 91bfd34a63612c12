package org.apache.iceberg;

/** What Iceberg's class has that ours are compiled against. */
public class SnapshotParser {
  private SnapshotParser() {}

  public static String toJson(Snapshot snapshot) {
    throw new UnsupportedOperationException(snapshot.toString());
  }

  public static Snapshot fromJson(String json) {
    throw new UnsupportedOperationException(json);
  }
}
