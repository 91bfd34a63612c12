package org.apache.iceberg;

/** What Iceberg's class has that ours are compiled against. */
public class SnapshotRef {
  private SnapshotRef() {}

  public static Builder branchBuilder(long snapshotId) {
    throw new UnsupportedOperationException();
  }

  public static Builder builderFrom(SnapshotRef ref, long snapshotId) {
    throw new UnsupportedOperationException();
  }

  public long snapshotId() {
    throw new UnsupportedOperationException();
  }

  public boolean isBranch() {
    throw new UnsupportedOperationException();
  }

  /** What Iceberg's class has that ours are compiled against. */
  public static class Builder {
    private Builder() {}

    public Builder maxRefAgeMs(Long value) {
      throw new UnsupportedOperationException();
    }

    public SnapshotRef build() {
      throw new UnsupportedOperationException();
    }
  }
}
