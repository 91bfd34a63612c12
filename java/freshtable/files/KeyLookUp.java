package freshtable.files;

import freshtable.inline.InlineTasks;
import freshtable.inline.Rows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks up rows of a table by values of its columns, in this process. For a small number of values, planning
 * and starting a Spark job takes several times longer than reading.
 *
 * <p>Parquet files are read column by column. The key column with the most distinct values comes first, and
 * only its pages that may contain one of them are read. Each further column is read only where all columns
 * before it matched. Files that our reader does not support, such as ORC files, files with equality deletes,
 * and files written before the table's columns changed, are read whole by Iceberg's readers.
 *
 * <p>Each key column is compared by itself, and values that cannot be compared here match. So the result may
 * contain rows with other combinations of values, but misses no row.
 */
public final class KeyLookUp {
  private static final Logger LOG = LoggerFactory.getLogger(KeyLookUp.class);
  /** How much longer Iceberg's readers need for a row than ours need for a value of the first column. */
  private static final int TIMES_LONGER = 4;

  private final SparkSession session;
  private final Table table;
  private final StructType columns;
  private int[] ids;
  /** The key columns, by their index in the columns. */
  private final int[] keys;
  private final List<WantedValues> wanted;
  /** The keys in the order in which they are read. */
  private final int[] order;
  private final Limits limits;
  private final AtomicLong leftToFind;
  private final AtomicLong leftToRead;
  private final AtomicLong candidates = new AtomicLong();
  private final AtomicLong read = new AtomicLong();
  private final List<FileScanTask> others = new ArrayList<>();
  private volatile Refusal refusal;
  private Rows rows;

  /**
   * The maximum number of rows to find, of rows that match in the first column, of rows in pages to read, of
   * files, and of their deleted positions.
   */
  public record Limits(int found, long candidates, long read, int files, long positions) {}

  /** Why a look-up found nothing. */
  public enum Refusal {
    /** More rows match than were permitted. */
    ROWS,
    /** More rows are in pages to read, or match in the first column, than were permitted. */
    PAGES,
    /** There are more files or deleted positions than were permitted, or the same file was added twice. */
    FILES,
    /** The files, or a column of them, cannot be read. */
    UNREADABLE
  }

  private KeyLookUp(
      SparkSession session,
      Table table,
      StructType columns,
      int[] keys,
      Rows values,
      int[] of,
      boolean[] nullSafe,
      Limits limits) {
    this.session = session;
    this.table = table;
    this.columns = columns;
    this.keys = keys;
    this.wanted = IntStream.range(0, keys.length)
        .mapToObj(
            key -> new WantedValues(values, of[key], columns.apply(keys[key]).dataType(), nullSafe[key]))
        .toList();
    this.order =
        IntStream.range(0, keys.length).boxed()
            .sorted(Comparator.comparingInt(key -> -wanted.get(key).distinct()))
            .mapToInt(Integer::intValue).toArray();
    this.limits = limits;
    this.leftToFind = new AtomicLong(limits.found());
    this.leftToRead = new AtomicLong(limits.read());
  }

  /**
   * Looks up {@code columns} of the rows in a version's files of which each of the columns {@code keys} has a
   * value that occurs in the column of {@code values} at the same index of {@code of}. NULL equals NULL where
   * {@code nullSafe} is set, and otherwise nothing.
   */
  public static KeyLookUp of(
      SparkSession session,
      Table table,
      VersionFiles files,
      StructType columns,
      String[] keys,
      Rows values,
      String[] of,
      boolean[] nullSafe,
      Limits limits)
      throws Exception {
    KeyLookUp lookUp =
        new KeyLookUp(session, table, columns,
            Arrays.stream(keys).mapToInt(columns::fieldIndex).toArray(), values,
            Arrays.stream(of).mapToInt(values.columns()::fieldIndex).toArray(), nullSafe, limits);
    lookUp.rows = lookUp.wanted.stream().anyMatch(WantedValues::isEmpty)
        ? new Rows(columns)
        : lookUp.run(files, found -> lookUp.completed(found) ? lookUp.rows(columns, found) : null);
    return lookUp;
  }

  /**
   * Returns the rows in the files of {@code tasks} whose first columns each contain one of the values in the
   * same column of {@code values}, followed by the location of the row's file, and the row's position in it.
   * Returns null if they cannot be looked up within the limits.
   *
   * <p>If {@code complete} is set, the last column of {@code values} is a number of copies, and the table is
   * known to contain each row of {@code values} at least that often. The values of a returned row may then be
   * those of another wanted row, but all rows together are the same: if a value of the first column read
   * occurs only as often as it is wanted, the rows with it are the wanted ones, and their other columns are
   * not read at all.
   */
  public static Rows withPlaces(
      SparkSession session,
      Table table,
      List<FileScanTask> tasks,
      StructType columns,
      Rows values,
      boolean complete,
      Limits limits)
      throws Exception {
    int[] keys = IntStream.range(0, values.columns().length() - (complete ? 1 : 0)).toArray();
    boolean[] nullSafe = new boolean[keys.length];
    Arrays.fill(nullSafe, true);
    KeyLookUp lookUp = new KeyLookUp(session, table, columns, keys, values, keys, nullSafe, limits);
    StructType placed = columns
        .add(new StructField(TaskReaders.FILE, DataTypes.StringType, false, Metadata.empty()))
        .add(new StructField(TaskReaders.POSITION, DataTypes.LongType, false, Metadata.empty()));
    boolean settles = complete && keys.length == columns.length();
    return lookUp.run(
        VersionFiles.of(tasks),
        found -> {
          SettledRows settled = settles && lookUp.others.isEmpty()
              ? SettledRows.of(found, lookUp.wanted.get(lookUp.order[0]), values, lookUp.order[0]) : null;
          if (settled != null) {
            lookUp.leftToFind.addAndGet(-settled.count());
          }
          if (!lookUp.completed(found)) {
            return null;
          }
          Rows rows = lookUp.rows(placed, found);
          if (settled != null && rows != null) {
            settled.addTo(rows);
          }
          return rows;
        });
  }

  /** Returns the rows, or null if they were not looked up. */
  public Rows rows() {
    return rows;
  }

  /** Returns why the rows were not looked up, or null if they were. */
  public Refusal refusal() {
    return rows == null ? refusal : null;
  }

  // ------------------------------------------------------------------------------------------------- the steps

  /** Completes the candidates that the first column has found in files that our reader supports. */
  private interface Completion {
    Rows of(List<Candidates> found);
  }

  private Rows run(VersionFiles files, Completion completion) throws Exception {
    return InlineTasks.reading(
        session,
        counter -> {
          try {
            ids = OpenedFiles.ids(table, columns);
            List<Candidates> found = candidates(files);
            Rows given = found == null ? null : completion.of(found);
            counter.accept(read.get() + (given == null ? 0 : given.size()));
            return given == null ? refuse(Refusal.UNREADABLE) : given;
          } catch (InterruptedException cause) {
            // Threads that are still reading end soon.
            refuse(Refusal.UNREADABLE);
            throw cause;
          } catch (TaskKilledException cause) {
            throw cause;
          } catch (IOException | RuntimeException cause) {
            LOG.warn("Rows must be looked up by a Spark job: {}", cause.toString());
            return refuse(Refusal.UNREADABLE);
          }
        });
  }

  /** Notes why this look-up ends, if nothing else ended it before. Returns null. */
  private synchronized <T> T refuse(Refusal why) {
    if (refusal == null) {
      refusal = why;
    }
    return null;
  }

  /** Returns the candidates of the files that our reader supports, and collects the others. */
  private List<Candidates> candidates(VersionFiles files) throws IOException, InterruptedException {
    if (files.isTwice() || files.positions() > limits.positions()) {
      return refuse(Refusal.FILES);
    }
    Map<Integer, VersionFiles.Choice> ranges = new HashMap<>();
    for (int key = 0; key < keys.length; key++) {
      WantedValues values = wanted.get(key);
      if (values.areOrdered()) {
        ranges.put(ids[keys[key]], range -> values.isAnyWithin(range.low(), range.high()));
      }
    }
    List<FileScanTask> tasks = files.tasks(table, ranges);
    if (tasks.size() > limits.files()) {
      return refuse(Refusal.FILES);
    }
    List<VersionFiles.File> opened = files.open(table, tasks);
    if (opened == null) {
      return null;
    }
    List<ReadingThreads.Reading<Optional<Candidates>>> works = new ArrayList<>();
    opened.forEach(file -> works.add(() -> file.opened() == null ? Optional.empty() : candidates(file)));
    List<Optional<Candidates>> all = ReadingThreads.all(works);
    if (all == null) {
      return null;
    }
    List<Candidates> found = new ArrayList<>();
    for (int number = 0; number < all.size(); number++) {
      FileScanTask task = tasks.get(number);
      all.get(number).ifPresentOrElse(found::add, () -> others.add(task));
    }
    return found;
  }

  /** Reads the other columns of candidates. Returns false if this is refused. */
  private boolean completed(List<Candidates> found) {
    List<ReadingThreads.Reading<Boolean>> works = new ArrayList<>();
    found.forEach(each -> works.add(() -> complete(each) ? true : null));
    return ReadingThreads.all(works) != null;
  }

  /** Returns the candidates and the rows of other files, or null if this is refused. */
  private Rows rows(StructType given, List<Candidates> found) {
    Rows all = new Rows(given);
    found.forEach(each -> each.addTo(all));
    List<Rows> rest = others.isEmpty() ? List.of() : readOthers(given);
    if (rest == null) {
      return null;
    }
    rest.forEach(all::addAll);
    return all;
  }

  // ------------------------------------------------------------------------------------------- the first column

  /**
   * Returns the rows of a file that match in the first column, nothing if our reader does not support its
   * columns, or null if the look-up is refused.
   */
  private Optional<Candidates> candidates(VersionFiles.File of) throws IOException {
    OpenedFile opened = of.opened();
    LookedUpFile file = new LookedUpFile(opened, ids, columns);
    Candidates found = new Candidates(file, of.task(), ids.length);
    int key = keys[order[0]];
    HeldColumn held = file.held(key);
    if (held != null) {
      return add(held, found) ? Optional.of(found) : null;
    }
    if (!file.isSupported()) {
      return Optional.empty();
    }
    List<StoredColumn> stored = Arrays.stream(keys).distinct().mapToObj(file.stored()::get).toList();
    List<StoredColumn> first = List.of(file.stored().get(key));
    try (ParquetFileReader reader = opened.reader(file.footer(), options(file.stored()))) {
      // Pages are skipped by the indexes of the requested columns only.
      reader.setRequestedSchema(ReadBatches.schema(file.schema(), stored));
      long count = reader.getFilteredRecordCount();
      if (refusal != null || leftToRead.addAndGet(-count) < 0) {
        return refuse(Refusal.PAGES);
      }
      read.addAndGet(count);
      if (file.rows() <= 2 * count && file.isDue(key)) {
        return add(file.hold(List.of(key)).get(0), found) ? Optional.of(found) : null;
      }
      reader.setRequestedSchema(ReadBatches.schema(file.schema(), first));
      try (ReadBatches batches =
          new ReadBatches(file.schema(), first, reader::readNextFilteredRowGroup, count)) {
        found.put(key, new HeldColumn());
        while (batches.next()) {
          if (!add(first.get(0), batches, found)) {
            return null;
          }
        }
      }
    }
    return Optional.of(found);
  }

  private ParquetReadOptions options(List<StoredColumn> stored) {
    FilterPredicate condition = null;
    for (int key = 0; key < keys.length; key++) {
      FilterPredicate each = wanted.get(key).condition(stored.get(keys[key]));
      if (each != null) {
        condition = condition == null ? each : FilterApi.and(condition, each);
      }
    }
    ParquetReadOptions.Builder options = OpenedFile.options();
    return condition == null
        ? options.build() : options.withRecordFilter(FilterCompat.get(condition)).build();
  }

  /** Adds the matching rows of a cached column. Returns false if the look-up is refused. */
  private boolean add(HeldColumn column, Candidates found) {
    WantedValues values = wanted.get(order[0]);
    boolean tells = values.areCompared();
    OpenedFile file = found.file().opened();
    HeldColumn matching = new HeldColumn();
    for (int row = 0; row < column.count(); row++) {
      int number = tells ? values.number(column, row) : 0;
      if (number >= 0 && !file.isDeleted(row)) {
        found.add(row, number);
        matching.add(column, row);
      }
    }
    found.put(keys[order[0]], matching);
    return areFew(found.count());
  }

  /** Adds the matching rows of a batch. Returns false if the look-up is refused. */
  private boolean add(StoredColumn column, ReadBatches batches, Candidates found) {
    WantedValues values = wanted.get(order[0]);
    boolean tells = values.areCompared();
    OpenedFile file = found.file().opened();
    HeldColumn matching = found.column(keys[order[0]]);
    ColumnVector vector = batches.column(0);
    int before = found.count();
    int size = batches.size();
    for (int row = 0; row < size; row++) {
      int number = tells ? values.number(column, vector, row) : 0;
      if (number >= 0 && !file.isDeleted(batches.place(row))) {
        found.add(batches.place(row), number);
        matching.add(column, vector, row);
      }
    }
    return areFew(found.count() - before);
  }

  private boolean areFew(int added) {
    if (candidates.addAndGet(added) > limits.candidates()) {
      // There may still be few rows that match in all columns.
      refuse(Refusal.PAGES);
    }
    return refusal == null;
  }

  // --------------------------------------------------------------------------------------------- other columns

  /** Reads the other columns of candidates. Returns false if the look-up is refused. */
  private boolean complete(Candidates found) throws IOException {
    for (int next = 1; next < order.length && found.count() > 0; next++) {
      if (refusal != null || wanted.get(order[next]).areCompared() && !match(found, order[next])) {
        return false;
      }
    }
    if (leftToFind.addAndGet(-found.count()) < 0) {
      refuse(Refusal.ROWS);
    }
    if (refusal != null) {
      return false;
    }
    List<Integer> rest =
        IntStream.range(0, ids.length).filter(column -> found.column(column) == null).boxed().toList();
    return found.count() == 0 || rest.isEmpty() || read(found, rest);
  }

  /** Keeps the candidates that match in a further column. */
  private boolean match(Candidates found, int key) throws IOException {
    if (found.column(keys[key]) == null && !read(found, List.of(keys[key]))) {
      return false;
    }
    HeldColumn column = found.column(keys[key]);
    WantedValues values = wanted.get(key);
    found.keep(IntStream.range(0, found.count()).filter(row -> values.number(column, row) >= 0).toArray());
    return true;
  }

  private boolean read(Candidates found, List<Integer> read) throws IOException {
    List<HeldColumn> given = found.file().at(found.places(), read);
    if (given == null) {
      return false;
    }
    for (int index = 0; index < given.size(); index++) {
      found.put(read.get(index), given.get(index));
    }
    return true;
  }

  // ----------------------------------------------------------------------------------------------- other files

  /** Returns the matching rows of each of the other files, or null if this is refused. */
  private List<Rows> readOthers(StructType given) {
    long count = others.stream().mapToLong(task -> task.file().recordCount()).sum();
    if (leftToRead.addAndGet(-TIMES_LONGER * count) < 0) {
      return refuse(Refusal.PAGES);
    }
    read.addAndGet(count);
    TaskReaders readers = TaskReaders.of(session, table, others, columns);
    int[] ordinals = readers.ordinals(columns);
    List<ReadingThreads.Reading<Rows>> works = new ArrayList<>();
    for (int number = 0; number < readers.count(); number++) {
      int reader = number;
      works.add(
          () -> {
            Rows some = ChosenRows.read(
                readers, reader, new Rows(given), readers.references(given),
                (task, row) -> refusal == null && matches(row, ordinals), leftToFind);
            return some == null ? refuse(Refusal.ROWS) : some;
          });
    }
    return ReadingThreads.allWhole(works);
  }

  private boolean matches(InternalRow row, int[] ordinals) {
    for (int key = 0; key < keys.length; key++) {
      DataType type = columns.apply(keys[key]).dataType();
      if (!wanted.get(key).matches(row, ordinals[keys[key]], type)) {
        return false;
      }
    }
    return true;
  }
}
