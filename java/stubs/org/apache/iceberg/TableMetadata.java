package org.apache.iceberg;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** What Iceberg's class has that ours are compiled against. */
public class TableMetadata {
  private TableMetadata() {}

  public static Builder buildFrom(TableMetadata base) {
    throw new UnsupportedOperationException(base.location());
  }

  public String location() {
    throw new UnsupportedOperationException();
  }

  public Map<String, String> properties() {
    throw new UnsupportedOperationException();
  }

  public Map<String, SnapshotRef> refs() {
    throw new UnsupportedOperationException();
  }

  public SnapshotRef ref(String name) {
    throw new UnsupportedOperationException(name);
  }

  public List<Snapshot> snapshots() {
    throw new UnsupportedOperationException();
  }

  public Snapshot currentSnapshot() {
    throw new UnsupportedOperationException();
  }

  public Schema schema() {
    throw new UnsupportedOperationException();
  }

  public long lastSequenceNumber() {
    throw new UnsupportedOperationException();
  }

  public String metadataFileLocation() {
    throw new UnsupportedOperationException();
  }

  /** What Iceberg's class has that ours are compiled against. */
  public static class Builder {
    private Builder() {}

    public Builder addSnapshot(Snapshot snapshot) {
      throw new UnsupportedOperationException();
    }

    public Builder setRef(String name, SnapshotRef ref) {
      throw new UnsupportedOperationException(name);
    }

    public Builder removeRef(String name) {
      throw new UnsupportedOperationException(name);
    }

    public Builder setProperties(Map<String, String> updated) {
      throw new UnsupportedOperationException();
    }

    public Builder removeProperties(Set<String> removed) {
      throw new UnsupportedOperationException();
    }

    public TableMetadata build() {
      throw new UnsupportedOperationException();
    }
  }
}
