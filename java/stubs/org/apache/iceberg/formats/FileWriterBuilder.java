package org.apache.iceberg.formats;

import java.io.IOException;
import java.util.Map;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.io.FileWriter;

/** What Iceberg's interface has that ours are compiled against. */
public interface FileWriterBuilder<W extends FileWriter<?, ?>, S> {
  default FileWriterBuilder<W, S> setAll(Map<String, String> properties) {
    throw new UnsupportedOperationException();
  }

  FileWriterBuilder<W, S> metricsConfig(MetricsConfig metricsConfig);

  FileWriterBuilder<W, S> spec(PartitionSpec newSpec);

  FileWriterBuilder<W, S> partition(StructLike newPartition);

  FileWriterBuilder<W, S> schema(Schema newSchema);

  FileWriterBuilder<W, S> engineSchema(S newSchema);

  FileWriterBuilder<W, S> equalityFieldIds(int... fieldIds);

  W build() throws IOException;
}
