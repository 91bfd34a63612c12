package org.apache.iceberg;

/** What Iceberg's class has that ours are compiled against. */
public class FileMetadata {
  private FileMetadata() {}

  public static Builder deleteFileBuilder(PartitionSpec spec) {
    throw new UnsupportedOperationException();
  }

  public static class Builder {
    private Builder() {}

    public Builder ofPositionDeletes() {
      throw new UnsupportedOperationException();
    }

    public Builder withPath(String newPath) {
      throw new UnsupportedOperationException();
    }

    public Builder withFormat(FileFormat newFormat) {
      throw new UnsupportedOperationException();
    }

    public Builder withFileSizeInBytes(long newFileSizeInBytes) {
      throw new UnsupportedOperationException();
    }

    public Builder withMetrics(Metrics metrics) {
      throw new UnsupportedOperationException();
    }

    public DeleteFile build() {
      throw new UnsupportedOperationException();
    }
  }
}
