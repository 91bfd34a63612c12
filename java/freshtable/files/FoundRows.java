package freshtable.files;

import freshtable.inline.Rows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.apache.iceberg.Table;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Looks up rows in Parquet files by column values, in this process. For a small number of values, planning
 * and starting a Spark job takes several times longer than reading.
 *
 * <p>Files are read column by column. The lookup column with the most distinct values comes first, and only
 * its pages that may contain one of them are read. Each further column is read only where all columns before
 * it matched. If the caller knows that the table contains all wanted rows, and a value occurs only as often
 * as it is wanted, the rows with that value are the wanted ones, and their other columns are not read at all.
 */
public final class FoundRows {
  /** The maximum number of rows that may match in the first column. Each takes 20 bytes. */
  private static final long MOST_CANDIDATES = 4_000_000;

  private final StructType columns;
  private final int[] ids;
  private final List<WantedValues> wanted;
  /** The lookup columns in the order in which they are read. */
  private final int[] order;
  private final AtomicLong leftToFind;
  private final AtomicLong leftToRead;
  private final AtomicLong candidates = new AtomicLong();

  private FoundRows(StructType columns, int[] ids, List<WantedValues> wanted, long most, long mostRead) {
    this.columns = columns;
    this.ids = ids;
    this.wanted = wanted;
    this.order =
        IntStream.range(0, wanted.size()).boxed()
            .sorted(Comparator.comparingInt(key -> -wanted.get(key).distinct()))
            .mapToInt(Integer::intValue).toArray();
    this.leftToFind = new AtomicLong(most);
    this.leftToRead = new AtomicLong(mostRead);
  }

  /**
   * Returns the rows in a table's files whose first columns each contain one of the values in the same column
   * of {@code values}. The result may contain more rows if values cannot be compared here.
   *
   * <p>If {@code complete} is set, the last column of {@code values} is a number of copies, and the table is
   * known to contain each row of {@code values} at least that often. The values of a returned row may then be
   * those of another wanted row, but all rows together are the same.
   *
   * <p>Two columns follow the given ones: the location of the row's file, and the row's position in it.
   * Returns null if a file cannot be read or stores a column in an unsupported way, if more rows than
   * {@code mostRead} must be read, or if more than {@code most} are found.
   */
  public static Rows of(
      Table table, List<OpenedFile> files, StructType columns, Rows values, boolean complete, int most,
      long mostRead)
      throws IOException {
    int keys = values.columns().length() - (complete ? 1 : 0);
    FoundRows lookup = new FoundRows(columns,
        OpenedFiles.ids(table, columns), WantedValues.all(values, keys), most, mostRead);
    List<Candidates> found =
        ReadingThreads.all(
            files.stream()
                .<ReadingThreads.Reading<Candidates>>map(file -> () -> lookup.candidates(file)).toList());
    if (found == null) {
      return null;
    }
    Settled settled = complete && keys == columns.length() ? lookup.settled(found, values) : null;
    List<Boolean> completed =
        ReadingThreads.all(
            found.stream()
                .<ReadingThreads.Reading<Boolean>>map(each -> () -> lookup.complete(each) ? true : null)
                .toList());
    if (completed == null) {
      return null;
    }
    Rows rows =
        new Rows(columns.add(new StructField("_file", DataTypes.StringType, false, Metadata.empty()))
            .add(new StructField("_pos", DataTypes.LongType, false, Metadata.empty())));
    if (settled != null) {
      settled.addTo(rows);
    }
    found.forEach(each -> lookup.addTo(rows, each));
    return rows;
  }

  // ------------------------------------------------------------------------------------------- the first column

  /** The rows of a file that match so far, with the columns that were read of them. */
  private final class Candidates {
    private final LookedUpFile file;
    private final HeldColumn[] values = new HeldColumn[ids.length];
    private long[] places = new long[16];
    /** The number of the value that the first column matched. */
    private int[] numbers = new int[16];
    private int count;

    Candidates(LookedUpFile file) {
      this.file = file;
    }

    void add(long place, int number) {
      if (count == places.length) {
        places = Arrays.copyOf(places, 2 * count);
        numbers = Arrays.copyOf(numbers, 2 * count);
      }
      places[count] = place;
      numbers[count++] = number;
    }

    long[] places() {
      return Arrays.copyOf(places, count);
    }

    /** Keeps only the candidates with these indexes, which are in order. */
    void keep(int[] kept) {
      if (kept.length == count) {
        return;
      }
      for (int column = 0; column < values.length; column++) {
        values[column] = values[column] == null ? null : values[column].select(kept);
      }
      for (int index = 0; index < kept.length; index++) {
        places[index] = places[kept[index]];
        numbers[index] = numbers[kept[index]];
      }
      count = kept.length;
    }
  }

  /** Returns the rows of a file that match in the first column, or null if it is not read here. */
  private Candidates candidates(OpenedFile opened) throws IOException {
    LookedUpFile file = new LookedUpFile(opened, ids, columns);
    Candidates found = new Candidates(file);
    int key = order[0];
    HeldColumn held = file.held(key);
    if (held != null) {
      return add(held, found) ? found : null;
    }
    if (!file.isSupported()) {
      return null;
    }
    List<StoredColumn> keys = file.stored().subList(0, wanted.size());
    List<StoredColumn> first = keys.subList(key, key + 1);
    try (ParquetFileReader reader = opened.reader(file.footer(), options(keys))) {
      // Pages are skipped by the indexes of the requested columns only.
      reader.setRequestedSchema(ReadBatches.schema(file.schema(), keys));
      long count = reader.getFilteredRecordCount();
      if (leftToRead.addAndGet(-count) < 0) {
        return null;
      }
      if (file.rows() <= 2 * count && file.isDue(key)) {
        return add(file.hold(List.of(key)).get(0), found) ? found : null;
      }
      reader.setRequestedSchema(ReadBatches.schema(file.schema(), first));
      try (ReadBatches batches =
          new ReadBatches(file.schema(), first, reader::readNextFilteredRowGroup, count)) {
        found.values[key] = new HeldColumn();
        while (batches.next()) {
          if (!add(first.get(0), batches, found)) {
            return null;
          }
        }
      }
    }
    return found;
  }

  private ParquetReadOptions options(List<StoredColumn> stored) {
    FilterPredicate condition = null;
    for (int key = 0; key < stored.size(); key++) {
      FilterPredicate each = wanted.get(key).condition(stored.get(key));
      if (each != null) {
        condition = condition == null ? each : FilterApi.and(condition, each);
      }
    }
    ParquetReadOptions.Builder options = OpenedFile.options();
    return condition == null
        ? options.build() : options.withRecordFilter(FilterCompat.get(condition)).build();
  }

  /** Adds the matching rows of a cached column. Returns false if there are too many. */
  private boolean add(HeldColumn column, Candidates found) {
    WantedValues values = wanted.get(order[0]);
    boolean tells = column.count() > 0 && values.tells(column.stored());
    OpenedFile file = found.file.opened();
    HeldColumn matching = new HeldColumn();
    for (int row = 0; row < column.count(); row++) {
      int number = tells ? values.number(column, row) : 0;
      if (number >= 0 && !file.isDeleted(row)) {
        found.add(row, number);
        matching.add(column, row);
      }
    }
    found.values[order[0]] = matching;
    return candidates.addAndGet(found.count) <= MOST_CANDIDATES;
  }

  /** Adds the matching rows of a batch. Returns false if there are too many. */
  private boolean add(StoredColumn column, ReadBatches batches, Candidates found) {
    WantedValues values = wanted.get(order[0]);
    boolean tells = values.tells(column);
    OpenedFile file = found.file.opened();
    HeldColumn matching = found.values[order[0]];
    ColumnVector vector = batches.column(0);
    int before = found.count;
    int size = batches.size();
    for (int row = 0; row < size; row++) {
      int number = tells ? values.number(column, vector, row) : 0;
      if (number >= 0 && !file.isDeleted(batches.place(row))) {
        found.add(batches.place(row), number);
        matching.add(column, vector, row);
      }
    }
    return candidates.addAndGet(found.count - before) <= MOST_CANDIDATES;
  }

  // ------------------------------------------------------------------------------------------ all wanted rows

  /** The places of rows that are wanted whatever their other columns contain, and these columns. */
  private record Settled(List<UTF8String> files, List<Long> places, List<InternalRow> values, Rows wanted) {
    void addTo(Rows rows) {
      StructType columns = rows.columns();
      int keys = columns.length() - 2;
      for (int index = 0; index < places.size(); index++) {
        Object[] row = new Object[keys + 2];
        for (int key = 0; key < keys; key++) {
          row[key] = values.get(index).get(key, columns.apply(key).dataType());
        }
        row[keys] = files.get(index);
        row[keys + 1] = places.get(index);
        rows.add(new GenericInternalRow(row));
      }
    }
  }

  /**
   * Takes the candidates away whose value in the first column occurs as often as it is wanted, and returns
   * them with the wanted rows of that value. Null if values of the first column cannot be compared.
   */
  private Settled settled(List<Candidates> found, Rows values) {
    WantedValues first = wanted.get(order[0]);
    if (!first.areCompared()) {
      return null;
    }
    long[] occurring = new long[first.numbers()];
    for (Candidates each : found) {
      for (int index = 0; index < each.count; index++) {
        occurring[each.numbers[index]]++;
      }
    }
    List<List<InternalRow>> rows = first.rows(values, order[0], wanted.size());
    Settled settled = new Settled(new ArrayList<>(), new ArrayList<>(), new ArrayList<>(), values);
    int[] given = new int[occurring.length];
    for (Candidates each : found) {
      UTF8String location = UTF8String.fromString(each.file.opened().location());
      int[] open = new int[each.count];
      int left = 0;
      for (int index = 0; index < each.count; index++) {
        int number = each.numbers[index];
        if (occurring[number] != rows.get(number).size()) {
          open[left++] = index;
          continue;
        }
        settled.files().add(location);
        settled.places().add(each.places[index]);
        settled.values().add(rows.get(number).get(given[number]++));
      }
      each.keep(Arrays.copyOf(open, left));
    }
    leftToFind.addAndGet(-settled.places().size());
    return settled;
  }

  // --------------------------------------------------------------------------------------------- other columns

  /** Reads the other columns of candidates. Returns false if the file is not read here. */
  private boolean complete(Candidates found) throws IOException {
    for (int next = 1; next < order.length && found.count > 0; next++) {
      if (wanted.get(order[next]).areCompared() && !match(found, order[next])) {
        return false;
      }
    }
    List<Integer> others =
        IntStream.range(0, ids.length).filter(column -> found.values[column] == null).boxed().toList();
    return leftToFind.addAndGet(-found.count) >= 0
        && (found.count == 0 || others.isEmpty() || read(found, others));
  }

  /** Keeps the candidates that match in a further column. */
  private boolean match(Candidates found, int key) throws IOException {
    if (!read(found, List.of(key))) {
      return false;
    }
    HeldColumn column = found.values[key];
    WantedValues values = wanted.get(key);
    if (values.tells(column.stored())) {
      found.keep(IntStream.range(0, found.count).filter(row -> values.number(column, row) >= 0).toArray());
    }
    return true;
  }

  private boolean read(Candidates found, List<Integer> read) throws IOException {
    List<HeldColumn> given = found.file.at(found.places(), read);
    if (given == null) {
      return false;
    }
    for (int index = 0; index < given.size(); index++) {
      found.values[read.get(index)] = given.get(index);
    }
    return true;
  }

  private void addTo(Rows rows, Candidates found) {
    UTF8String location = UTF8String.fromString(found.file.opened().location());
    for (int index = 0; index < found.count; index++) {
      Object[] row = new Object[ids.length + 2];
      for (int column = 0; column < ids.length; column++) {
        row[column] = found.values[column].value(index);
      }
      row[ids.length] = location;
      row[ids.length + 1] = found.places[index];
      rows.add(new GenericInternalRow(row));
    }
  }
}
