package freshtable.files;

import java.io.IOException;
import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.types.DataType;

/**
 * A cache of Parquet columns that are looked up repeatedly. Data files are immutable.
 *
 * <p>If a lookup must read most of a column, the column is cached from the second lookup on, as long as
 * lookups request it every few minutes. The JVM may reclaim the memory at any time.
 */
final class HeldColumns {
  /**
   * The size of the cache in values of eight bytes. A column is not evicted for another column that is
   * requested equally often.
   */
  private static final long MOST = 8L * 1024 * 1024;
  /** The number of columns whose requests are remembered, and the time for which they are remembered. */
  private static final int MOST_COLUMNS = 10_000;
  private static final long KNOWN_FOR = TimeUnit.MINUTES.toNanos(5);
  private static final Map<Key, Held> HELD = new LinkedHashMap<>(16, 0.75f, true);
  private static long values;

  /** A column of a file, by field id, with values of a type. */
  private record Key(String location, int id, DataType type) {}

  /**
   * A column, the time of its last request, and the number of its values, which is zero if only the request
   * is remembered.
   */
  private static final class Held {
    private SoftReference<HeldColumn> column = new SoftReference<>(null);
    private long asked = System.nanoTime();
    private long values;
  }

  private HeldColumns() {}

  /** Returns a column of a file with the values of all rows, including deleted rows, or null if not cached. */
  static synchronized HeldColumn of(OpenedFile file, int id, DataType type) {
    Held held = HELD.get(new Key(file.location(), id, type));
    HeldColumn column = held == null ? null : held.column.get();
    if (column != null) {
      held.asked = System.nanoTime();
    }
    return column;
  }

  /**
   * Returns whether a column of a file with {@code rows} rows should be cached. It must have been requested
   * before, have fixed-length values, and fit into the cache. If so, its space is reserved.
   */
  static synchronized boolean isDue(
      OpenedFile file, int id, DataType type, StoredColumn stored, long rows) {
    if (rows == 0 || !stored.isFixed()) {
      return false;
    }
    forget();
    Key key = new Key(file.location(), id, type);
    boolean due = HELD.containsKey(key) && values + rows <= MOST;
    Held held = HELD.computeIfAbsent(key, asked -> new Held());
    if (due) {
      take(held, rows);
    } else if (held.column.get() == null) {
      // The JVM has reclaimed its memory.
      take(held, 0);
    }
    return due;
  }

  /** Reads and caches columns of a file. */
  static List<HeldColumn> read(
      OpenedFile file, ParquetMetadata footer, int[] ids, List<StoredColumn> stored) throws IOException {
    MessageType schema = footer.getFileMetaData().getSchema();
    List<HeldColumn> all = new ArrayList<>();
    try (ParquetFileReader reader = file.reader(footer, OpenedFile.options().build())) {
      reader.setRequestedSchema(ReadBatches.schema(schema, stored));
      int rows = Math.toIntExact(reader.getRecordCount());
      stored.forEach(each -> all.add(new HeldColumn(rows)));
      try (ReadBatches batches = new ReadBatches(schema, stored, reader::readNextRowGroup, rows)) {
        while (batches.next()) {
          boolean[] deleted = new boolean[batches.size()];
          for (int column = 0; column < ids.length; column++) {
            all.get(column).add(stored.get(column), batches.column(column), deleted);
          }
        }
      }
    }
    for (int column = 0; column < ids.length; column++) {
      hold(new Key(file.location(), ids[column], stored.get(column).type()), all.get(column));
    }
    return all;
  }

  private static synchronized void hold(Key key, HeldColumn column) {
    Held held = HELD.computeIfAbsent(key, asked -> new Held());
    take(held, column.count());
    held.column = new SoftReference<>(column);
  }

  private static void take(Held held, long count) {
    values += count - held.values;
    held.values = count;
    held.asked = System.nanoTime();
  }

  /** Forgets columns without recent requests, the least recently requested ones first. */
  private static void forget() {
    Iterator<Held> all = HELD.values().iterator();
    while (all.hasNext()) {
      Held eldest = all.next();
      if (System.nanoTime() - eldest.asked < KNOWN_FOR && HELD.size() <= MOST_COLUMNS) {
        return;
      }
      values -= eldest.values;
      all.remove();
    }
  }
}
