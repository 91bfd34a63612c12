package org.apache.iceberg.io;

import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.encryption.EncryptedOutputFile;

/** What Iceberg's class has that ours are compiled against. */
public class OutputFileFactory {
  private OutputFileFactory() {}

  public static Builder builderFor(Table table, int partitionId, long taskId) {
    throw new UnsupportedOperationException();
  }

  public EncryptedOutputFile newOutputFile(PartitionSpec spec, StructLike partition) {
    throw new UnsupportedOperationException();
  }

  public static class Builder {
    private Builder() {}

    public Builder operationId(String newOperationId) {
      throw new UnsupportedOperationException();
    }

    public Builder format(FileFormat newFormat) {
      throw new UnsupportedOperationException();
    }

    public OutputFileFactory build() {
      throw new UnsupportedOperationException();
    }
  }
}
