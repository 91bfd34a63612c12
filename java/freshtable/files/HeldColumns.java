package freshtable.files;

import java.io.IOException;
import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Columns of Parquet files that are looked up again and again, in memory:
 * what a file of a table holds never changes.
 *
 * <p>Where a lookup has to read most of a file, it is held from the second one on,
 * while lookups ask for it every few minutes. The JVM takes the memory back when it needs it.
 */
final class HeldColumns {
  /**
   * Values, of eight bytes each, that are held at most: no column goes for another one that is asked
   * for as often.
   */
  private static final long MOST = 8L * 1024 * 1024;
  /** Columns that are known to have been asked for, and how long they are known after that. */
  private static final int MOST_COLUMNS = 10_000;
  private static final long KNOWN_FOR = TimeUnit.MINUTES.toNanos(5);
  private static final Map<Key, Held> HELD = new LinkedHashMap<>(16, 0.75f, true);
  private static long values;

  /** A column of a file, by its id, as values of a type. */
  private record Key(String location, int id, DataType type) {}

  /**
   * A column, when it was asked for, and the number of its values; that of one that is only known is none.
   */
  private static final class Held {
    private SoftReference<HeldColumn> column = new SoftReference<>(null);
    private long asked = System.nanoTime();
    private long values;
  }

  private HeldColumns() {}

  /**
   * Returns columns of a file with the values of all its rows, also of deleted ones;
   * null unless all are held.
   */
  static synchronized List<HeldColumn> of(OpenedFile file, int[] ids, StructType columns) {
    List<HeldColumn> all = new ArrayList<>();
    for (Key key : keys(file, ids, columns)) {
      Held held = HELD.get(key);
      HeldColumn column = held == null ? null : held.column.get();
      if (column == null) {
        return null;
      }
      held.asked = System.nanoTime();
      all.add(column);
    }
    return all;
  }

  /**
   * Returns whether columns of a file with {@code rows} rows are to be held: they were asked for before,
   * each of their values is as long as a number, and there is room for them beside those that are held.
   * The room is theirs from then on.
   */
  static synchronized boolean areDue(
      OpenedFile file, int[] ids, StructType columns, List<StoredColumn> stored, long rows) {
    if (rows == 0 || !stored.stream().allMatch(StoredColumn::isFixed)) {
      return false;
    }
    forget();
    List<Key> keys = keys(file, ids, columns);
    boolean due = HELD.keySet().containsAll(keys) && values + rows * ids.length <= MOST;
    for (Key key : keys) {
      Held held = HELD.computeIfAbsent(key, asked -> new Held());
      if (due) {
        take(held, rows);
      } else if (held.column.get() == null) {
        // The JVM took its memory, if it was held.
        take(held, 0);
      }
    }
    return due;
  }

  /** Reads columns of a file, holds them, and returns them as {@link #of} does. */
  static List<HeldColumn> read(
      OpenedFile file, ParquetMetadata footer, int[] ids, StructType columns, List<StoredColumn> stored)
      throws IOException {
    ParquetReadOptions options = OpenedFile.options().build();
    MessageType schema = footer.getFileMetaData().getSchema();
    List<HeldColumn> all = new ArrayList<>();
    try (ParquetFileReader reader = file.reader(footer, options)) {
      reader.setRequestedSchema(ReadBatches.schema(schema, stored));
      int rows = Math.toIntExact(reader.getRecordCount());
      for (int column = 0; column < ids.length; column++) {
        all.add(new HeldColumn(rows));
      }
      try (ReadBatches batches = new ReadBatches(schema, stored, reader::readNextRowGroup, rows)) {
        while (batches.next()) {
          boolean[] deleted = new boolean[batches.size()];
          for (int column = 0; column < ids.length; column++) {
            all.get(column).add(stored.get(column), batches.column(column), deleted);
          }
        }
      }
    }
    hold(keys(file, ids, columns), all);
    return all;
  }

  private static synchronized void hold(List<Key> keys, List<HeldColumn> columns) {
    for (int number = 0; number < keys.size(); number++) {
      Held held = HELD.computeIfAbsent(keys.get(number), key -> new Held());
      take(held, columns.get(number).count());
      held.column = new SoftReference<>(columns.get(number));
    }
  }

  private static void take(Held held, long count) {
    values += count - held.values;
    held.values = count;
    held.asked = System.nanoTime();
  }

  /**
   * Forgets the columns that no lookup has asked for lately;
   * the first ones are those that were not for the longest.
   */
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

  private static List<Key> keys(OpenedFile file, int[] ids, StructType columns) {
    String location = file.location();
    List<Key> keys = new ArrayList<>();
    for (int column = 0; column < ids.length; column++) {
      keys.add(new Key(location, ids[column], columns.apply(column).dataType()));
    }
    return keys;
  }
}
