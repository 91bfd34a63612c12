package freshtable.iceberg;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.io.CloseableIterable;

/** The lowest and highest values of columns in the data files of a snapshot, by the location of the file. */
public final class ColumnRanges {
  /** Types whose values Iceberg stores as integers. */
  private static final Set<String> TYPES = Set.of("int", "long", "date", "timestamp", "timestamptz");

  private final Map<Integer, Map<String, Range>> ranges = new HashMap<>();

  /** The lowest and highest value of a column in a file. {@code UNKNOWN} may be any. */
  public record Range(long low, long high) {
    static final Range UNKNOWN = new Range(Long.MIN_VALUE, Long.MAX_VALUE);
  }

  private ColumnRanges() {}

  /** Reads the ranges of columns, given by field id, from manifests. They are not those of NULL. */
  public static ColumnRanges of(Table table, long snapshot, int[] ids) throws IOException {
    ColumnRanges read = new ColumnRanges();
    TableScan scan = Manifests.scan(table, snapshot);
    Schema schema = scan.schema();
    Arrays.stream(ids).forEach(id -> read.ranges.put(id, new HashMap<>()));
    List<String> names = Arrays.stream(ids).mapToObj(schema::findField).filter(Objects::nonNull)
        .filter(field -> TYPES.contains(field.type().toString())).map(field -> field.name()).toList();
    TableScan of = names.isEmpty() ? scan : scan.includeColumnStats(names);
    try (CloseableIterable<FileScanTask> files = of.planFiles()) {
      for (FileScanTask task : files) {
        for (int id : ids) {
          read.ranges.get(id).put(task.file().location(), range(task, id));
        }
      }
    }
    return read;
  }

  private static Range range(FileScanTask task, int id) {
    Map<Integer, ByteBuffer> low = task.file().lowerBounds();
    Map<Integer, ByteBuffer> high = task.file().upperBounds();
    return low == null || high == null || low.get(id) == null || high.get(id) == null
        ? Range.UNKNOWN : new Range(number(low.get(id)), number(high.get(id)));
  }

  /** Returns the integer in a buffer, which is shorter in files that were written before it became BIGINT. */
  private static long number(ByteBuffer bound) {
    ByteBuffer bytes = bound.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    return bytes.remaining() < Long.BYTES ? bytes.getInt() : bytes.getLong();
  }

  /** Returns the range of a column in a file, or null if it has not been read. */
  public Range of(String location, int id) {
    return ranges.getOrDefault(id, Map.of()).get(location);
  }
}
