package freshtable.files;

import freshtable.files.HashDifference.Hashes;
import freshtable.files.HashDifference.Places;
import freshtable.iceberg.FileDifference;
import freshtable.iceberg.RowLineage;
import freshtable.inline.InlineTasks;
import freshtable.inline.Rows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.roaringbitmap.RoaringBitmap;

/**
 * The rows that turn an old snapshot of a table into a new one, read in this process without a job.
 *
 * <p>First the places of these rows are found: of redeleted files from their deleted positions, of files that
 * were rewritten by hashes of all their rows, whose order does not matter. Then only the rows at these places
 * are read. A few of the rows may turn up on both sides, if a writer has moved them.
 */
public final class ChangedRows {
  /** The hashes of one comparison take at most this part of the heap. Comparisons run one after the other. */
  private static final int PART_OF_HEAP = 4;
  private static final Lock COMPARING = new ReentrantLock(true);
  /** A sample has at most this number of rows, on both sides together. */
  private static final int MOST_SAMPLED = 2000;
  private static final Set<String> METADATA = Set.of("_file", "_pos");

  private final SparkSession session;
  private final Table table;
  private final StructType compared;
  private final StructType columns;
  private final StructType given;
  private final int most;
  private final RowLineage lineage;
  private final List<Part> parts = new ArrayList<>();

  /** Rows to read, with their sign: those at places in a file, or all that are not deleted if it is null. */
  private record Part(FileScanTask task, long[] places, int sign) {}

  private ChangedRows(
      SparkSession session,
      Table table,
      StructType compared,
      StructType columns,
      String sign,
      int most,
      RowLineage lineage) {
    this.session = session;
    this.table = table;
    this.compared = compared;
    this.columns = columns;
    this.given = columns.add(new StructField(sign, DataTypes.IntegerType, false, Metadata.empty()));
    this.most = most;
    this.lineage = lineage;
  }

  /**
   * Returns {@code columns} of the rows that turn the first files into the second ones. The last column, named
   * {@code sign}, is -1 for removed and 1 for added rows. Rows of rewritten files are the same if their
   * {@code compared} columns are.
   *
   * <p>Returns null if a file cannot be read, if there are more than {@code most} such rows, or if there is
   * not enough memory to compare them. With a {@code lineage}, which may be null, rows are compared by it
   * where it identifies them.
   */
  public static Rows of(
      SparkSession session,
      Table table,
      FileDifference files,
      StructType compared,
      StructType columns,
      String sign,
      int most,
      RowLineage lineage)
      throws Exception {
    if (isTwice(files) || Stream.of(compared, columns)
        .flatMap(each -> Stream.of(each.fieldNames())).anyMatch(METADATA::contains)) {
      return null;
    }
    ChangedRows changed = new ChangedRows(session, table, compared, columns, sign, most, lineage);
    return InlineTasks.run(session, () -> changed.find(files) ? changed.read() : null);
  }

  private boolean find(FileDifference files) throws InterruptedException {
    return redeleted(files)
        && (files.isRewrite() ? rewritten(files) : whole(files.gone(), -1) && whole(files.come(), 1));
  }

  /** Returns whether a side has the same file twice, so that a location does not name its task. */
  private static boolean isTwice(FileDifference files) {
    return Stream.of(files.allBefore(), files.allAfter())
        .anyMatch(side -> !side.stream().map(task -> task.file().location()).allMatch(new HashSet<>()::add));
  }

  /** Adds the positions that are deleted on one side only. Returns false if they are too many. */
  private boolean redeleted(FileDifference files) {
    List<OpenedFile> before = OpenedFiles.positions(table, files.before());
    List<OpenedFile> after = before == null ? null : OpenedFiles.positions(table, files.after());
    if (after == null) {
      return false;
    }
    long rows = 0;
    for (int number = 0; number < before.size(); number++) {
      RoaringBitmap old = before.get(number).deleted();
      RoaringBitmap now = after.get(number).deleted();
      rows += add(files.before().get(number), now, old, -1);
      rows += add(files.after().get(number), old, now, 1);
    }
    return rows <= most;
  }

  /** Adds the positions in the first set and not in the second one. Returns their number. */
  private int add(FileScanTask task, RoaringBitmap some, RoaringBitmap others, int sign) {
    RoaringBitmap places = RoaringBitmap.andNot(some, others);
    if (!places.isEmpty()) {
      parts.add(new Part(task, Arrays.stream(places.toArray()).asLongStream().toArray(), sign));
    }
    return places.getCardinality();
  }

  /** Adds all rows of files. Returns false if they are certainly too many. */
  private boolean whole(List<FileScanTask> tasks, int sign) {
    tasks.forEach(task -> parts.add(new Part(task, null, sign)));
    return tasks.stream().filter(task -> task.deletes().isEmpty())
        .mapToLong(task -> task.file().recordCount()).sum() <= most;
  }

  /** Adds the places of rows in rewritten files that have no equal row on the other side. */
  private boolean rewritten(FileDifference files) throws InterruptedException {
    List<List<Places>> places;
    // Several threads read the files of a comparison, and it takes much memory.
    COMPARING.lockInterruptibly();
    try {
      places = difference(files);
    } finally {
      COMPARING.unlock();
    }
    if (places == null) {
      return false;
    }
    add(places);
    return true;
  }

  private List<List<Places>> difference(FileDifference files) {
    if ((count(files.gone()) + count(files.come())) * Long.BYTES
        > Runtime.getRuntime().maxMemory() / PART_OF_HEAP) {
      return null;
    }
    if (lineage != null && lineage.identifies(files)) {
      List<List<Places>> places = difference(files, RowLineage.COLUMNS, true);
      if (places != null) {
        return places;
      }
    }
    return difference(files, compared, false);
  }

  /** Returns the places of the rows on each side that differ in some columns, or null if they are too many. */
  private List<List<Places>> difference(FileDifference files, StructType hashed, boolean isLineage) {
    HashDifference difference =
        new HashDifference(Math.max(count(files.gone()), count(files.come())), most);
    TaskReaders before = TaskReaders.of(session, table, files.gone(), hashed);
    TaskReaders after = TaskReaders.of(session, table, files.come(), hashed);
    List<ReadingThreads.Reading<Hashes>> works = new ArrayList<>();
    for (TaskReaders side : List.of(before, after)) {
      for (int number = 0; number < side.count(); number++) {
        int reader = number;
        works.add(
            () -> {
              Hashes hashes = FileHashes.of(side, reader, hashed);
              difference.add(hashes, side == before ? -1 : 1);
              return hashes;
            });
      }
    }
    List<Hashes> hashes = ReadingThreads.allWhole(works);
    if (hashes == null) {
      return null;
    }
    List<Hashes> old = hashes.subList(0, before.count());
    List<Hashes> now = hashes.subList(before.count(), hashes.size());
    List<List<Places>> places = difference.places(old, now, isLineage);
    return places == null || isLineage && !areCopied(CopiedRows.sample(old, now, places)) ? null : places;
  }

  /** Returns whether the rows at the places of each side have the same values, which lineage says. */
  private boolean areCopied(List<List<Places>> sample) {
    ChangedRows copied = new ChangedRows(session, table, compared, compared, "", MOST_SAMPLED, null);
    copied.add(sample);
    Rows rows = copied.read();
    if (rows == null) {
      return false;
    }
    RowHashes hashes = new RowHashes(compared, IntStream.range(0, compared.size()).toArray());
    long sum = 0;
    for (InternalRow row : rows) {
      sum += row.getInt(compared.size()) * hashes.of(row);
    }
    if (sum != 0) {
      lineage.disprove();
    }
    return sum == 0;
  }

  /** Adds places in removed and added files. */
  private void add(List<List<Places>> places) {
    places.get(0).forEach(each -> parts.add(new Part(each.task(), each.places(), -1)));
    places.get(1).forEach(each -> parts.add(new Part(each.task(), each.places(), 1)));
  }

  private static long count(List<FileScanTask> tasks) {
    return tasks.stream().mapToLong(task -> task.file().recordCount()).sum();
  }

  /**
   * Returns the rows of all parts, or null if there are more than {@code most}. They come from pages if our
   * reader supports the file, otherwise from Iceberg's readers.
   */
  private Rows read() {
    List<ReadingThreads.Reading<Optional<Rows>>> works = new ArrayList<>();
    parts.forEach(part -> works.add(() -> pages(part)));
    List<Optional<Rows>> read = ReadingThreads.all(works);
    if (read == null) {
      return null;
    }
    List<Part> others = new ArrayList<>();
    Rows rows = new Rows(given);
    for (int number = 0; number < parts.size(); number++) {
      Part part = parts.get(number);
      read.get(number).ifPresentOrElse(rows::addAll, () -> others.add(part));
    }
    List<Rows> rest = readAll(others);
    if (rest == null) {
      return null;
    }
    rest.forEach(rows::addAll);
    return rows.size() <= most ? rows : null;
  }

  /** Returns the rows of a part, or nothing if our reader of pages does not support its file. */
  private Optional<Rows> pages(Part part) throws IOException {
    if (part.places() == null || !OpenedFiles.isRead(table, part.task())) {
      return Optional.empty();
    }
    OpenedFile file = OpenedFiles.plain(table, part.task());
    ParquetMetadata footer = file.footer();
    List<StoredColumn> stored =
        StoredColumn.all(footer.getFileMetaData().getSchema(), OpenedFiles.ids(table, columns), columns);
    if (stored == null) {
      return Optional.empty();
    }
    Rows rows = new Rows(given);
    PlacedRows.read(
        file, footer, stored, part.places(),
        (place, batches, row) -> {
          Object[] values = new Object[stored.size() + 1];
          for (int column = 0; column < stored.size(); column++) {
            values[column] = stored.get(column).value(batches.column(column), row);
          }
          values[stored.size()] = part.sign();
          rows.add(new GenericInternalRow(values));
        });
    return Optional.of(rows);
  }

  private List<Rows> readAll(List<Part> some) {
    AtomicLong left = new AtomicLong(most);
    List<ReadingThreads.Reading<Rows>> works = new ArrayList<>();
    some.stream().collect(Collectors.groupingBy(Part::sign)).forEach(
        (sign, side) -> {
          Map<FileScanTask, long[]> places = new IdentityHashMap<>();
          side.forEach(part -> places.put(part.task(), part.places()));
          TaskReaders readers =
              TaskReaders.of(session, table, side.stream().map(Part::task).toList(), columns);
          for (int number = 0; number < readers.count(); number++) {
            int reader = number;
            works.add(
                () -> {
                  List<Expression> values = readers.references(columns);
                  values.add(new Literal(sign, DataTypes.IntegerType));
                  return ChosenRows.read(
                      readers, reader, new Rows(given), values, new Placed(places, readers.position()), left);
                });
          }
        });
    return ReadingThreads.allWhole(works);
  }

  /** The rows at some places of a file, or all rows. */
  private static final class Placed implements ChosenRows.Choice {
    private final Map<FileScanTask, long[]> places;
    private final int position;
    private int next;

    Placed(Map<FileScanTask, long[]> places, int position) {
      this.places = places;
      this.position = position;
    }

    @Override
    public boolean takes(FileScanTask task, InternalRow row) {
      long[] wanted = places.get(task);
      if (wanted == null) {
        return true;
      }
      // A place is passed without its row if an equality delete deletes it.
      for (; next < wanted.length && wanted[next] < row.getLong(position); next++) {}
      return next < wanted.length && wanted[next] == row.getLong(position);
    }
  }
}
