package org.apache.iceberg;

import java.util.List;

/** What Iceberg's class has that ours are compiled against. */
public class DataFiles {
  private DataFiles() {}

  public static Builder builder(PartitionSpec spec) {
    throw new UnsupportedOperationException();
  }

  public static class Builder {
    private Builder() {}

    public Builder withPath(String newPath) {
      throw new UnsupportedOperationException();
    }

    public Builder withFormat(FileFormat newFormat) {
      throw new UnsupportedOperationException();
    }

    public Builder withFileSizeInBytes(long newFileSizeInBytes) {
      throw new UnsupportedOperationException();
    }

    public Builder withRecordCount(long newRecordCount) {
      throw new UnsupportedOperationException();
    }

    public Builder withPartitionValues(List<String> partitionValues) {
      throw new UnsupportedOperationException();
    }

    public DataFile build() {
      throw new UnsupportedOperationException();
    }
  }
}
