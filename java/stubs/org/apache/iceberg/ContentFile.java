package org.apache.iceberg;

import java.nio.ByteBuffer;
import java.util.Map;

/** What Iceberg's interface has that ours are compiled against. */
public interface ContentFile<F> {
  default String location() {
    throw new UnsupportedOperationException();
  }

  FileContent content();

  FileFormat format();

  StructLike partition();

  long recordCount();

  long fileSizeInBytes();

  Map<Integer, Long> columnSizes();

  Map<Integer, Long> valueCounts();

  Map<Integer, Long> nullValueCounts();

  Map<Integer, Long> nanValueCounts();

  Map<Integer, ByteBuffer> lowerBounds();

  Map<Integer, ByteBuffer> upperBounds();
}
