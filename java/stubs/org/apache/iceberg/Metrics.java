package org.apache.iceberg;

import java.nio.ByteBuffer;
import java.util.Map;

/** What Iceberg's class has that ours are compiled against. */
public class Metrics {
  public Metrics(
      Long rowCount,
      Map<Integer, Long> columnSizes,
      Map<Integer, Long> valueCounts,
      Map<Integer, Long> nullValueCounts,
      Map<Integer, Long> nanValueCounts,
      Map<Integer, ByteBuffer> lowerBounds,
      Map<Integer, ByteBuffer> upperBounds) {
    throw new UnsupportedOperationException();
  }
}
