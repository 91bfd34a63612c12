package freshtable.files;

import freshtable.inline.Rows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.apache.iceberg.Table;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.parquet.schema.MessageType;
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
 * <p>The lookup columns are read first, only in pages that may contain one of the values. The other columns
 * are read where rows were found. If most of a file is read repeatedly, its columns are cached in memory.
 */
public final class FoundRows {
  private final StructType columns;
  private final int[] ids;
  private final List<WantedValues> wanted;
  private final int keys;
  private final AtomicLong leftToFind;
  private final AtomicLong leftToRead;

  private FoundRows(StructType columns, int[] ids, List<WantedValues> wanted, long most, long mostRead) {
    this.columns = columns;
    this.ids = ids;
    this.wanted = wanted;
    this.keys = wanted.size();
    this.leftToFind = new AtomicLong(most);
    this.leftToRead = new AtomicLong(mostRead);
  }

  /**
   * Returns the rows in a table's files whose first columns each contain one of the values in the same column
   * of {@code values}. The result may contain more rows if values cannot be compared here.
   *
   * <p>Two columns follow the given ones: the location of the row's file, and the row's position in it.
   * Returns null if a file cannot be read or stores a column in an unsupported way, if more rows than
   * {@code mostRead} must be read, or if more than {@code most} are found.
   */
  public static Rows of(
      Table table, List<OpenedFile> files, StructType columns, Rows values, int most, long mostRead)
      throws IOException {
    FoundRows lookup = new FoundRows(columns,
        OpenedFiles.ids(table, columns), WantedValues.all(values), most, mostRead);
    List<List<Object[]>> rows =
        ReadingThreads.all(
            IntStream.range(0, files.size())
                .<ReadingThreads.Reading<List<Object[]>>>mapToObj(
                    number -> () -> lookup.in(files.get(number)))
                .toList());
    if (rows == null) {
      return null;
    }
    StructType given =
        columns.add(new StructField("_file", DataTypes.StringType, false, Metadata.empty()))
            .add(new StructField("_pos", DataTypes.LongType, false, Metadata.empty()));
    Rows found = new Rows(given);
    rows.forEach(each -> each.forEach(row -> found.add(new GenericInternalRow(row))));
    return found;
  }

  private List<Object[]> in(OpenedFile file) throws IOException {
    List<HeldColumn> held = HeldColumns.of(file, ids, columns);
    return held == null ? read(file) : found(held, file);
  }

  private List<Object[]> read(OpenedFile file) throws IOException {
    ParquetMetadata footer = file.footer(OpenedFile.options().build());
    MessageType schema = footer.getFileMetaData().getSchema();
    List<StoredColumn> stored = StoredColumn.all(schema, ids, columns);
    if (stored == null) {
      return null;
    }
    List<StoredColumn> first = stored.subList(0, keys);
    List<Object[]> rows = new ArrayList<>();
    try (ParquetFileReader reader = file.reader(footer, options(first))) {
      reader.setRequestedSchema(ReadBatches.schema(schema, first));
      long count = reader.getFilteredRecordCount();
      if (leftToRead.addAndGet(-count) < 0) {
        return null;
      }
      long all = footer.getBlocks().stream().mapToLong(BlockMetaData::getRowCount).sum();
      if (all <= 2 * count && HeldColumns.areDue(file, ids, columns, stored, all)) {
        return found(HeldColumns.read(file, footer, ids, columns, stored), file);
      }
      try (ReadBatches batches = new ReadBatches(schema, first, reader::readNextFilteredRowGroup, count)) {
        while (batches.next()) {
          int before = rows.size();
          find(file, first, batches, rows);
          if (leftToFind.addAndGet(before - rows.size()) < 0) {
            return null;
          }
        }
      }
    }
    if (!rows.isEmpty() && keys < ids.length) {
      complete(file, footer, stored.subList(keys, ids.length), rows);
    }
    return rows;
  }

  /** Returns the matching rows of a file whose columns are all cached, or null if there are too many. */
  private List<Object[]> found(List<HeldColumn> held, OpenedFile file) {
    UTF8String location = UTF8String.fromString(file.location());
    boolean[] tells = new boolean[keys];
    for (int key = 0; key < keys; key++) {
      tells[key] = wanted.get(key).tells(held.get(key).stored());
    }
    List<Object[]> rows = new ArrayList<>();
    for (int row = 0; row < held.get(0).count(); row++) {
      if (!matches(held, tells, row) || file.isDeleted(row)) {
        continue;
      }
      if (leftToFind.decrementAndGet() < 0) {
        return null;
      }
      Object[] given = new Object[ids.length + 2];
      for (int column = 0; column < ids.length; column++) {
        given[column] = held.get(column).value(row);
      }
      given[ids.length] = location;
      given[ids.length + 1] = (long) row;
      rows.add(given);
    }
    return rows;
  }

  private boolean matches(List<HeldColumn> held, boolean[] tells, int row) {
    for (int key = 0; key < keys; key++) {
      if (tells[key] && !wanted.get(key).has(held.get(key), row)) {
        return false;
      }
    }
    return true;
  }

  private ParquetReadOptions options(List<StoredColumn> stored) {
    FilterPredicate condition = null;
    for (int key = 0; key < keys; key++) {
      FilterPredicate each = wanted.get(key).condition(stored.get(key));
      if (each != null) {
        condition = condition == null ? each : FilterApi.and(condition, each);
      }
    }
    ParquetReadOptions.Builder options = OpenedFile.options();
    return condition == null
        ? options.build() : options.withRecordFilter(FilterCompat.get(condition)).build();
  }

  /** Adds the matching rows of a batch, with their keys and positions. */
  private void find(OpenedFile file, List<StoredColumn> stored, ReadBatches batches, List<Object[]> rows) {
    UTF8String location = UTF8String.fromString(file.location());
    boolean[] matches = new boolean[batches.size()];
    Arrays.fill(matches, true);
    for (int key = 0; key < keys; key++) {
      StoredColumn column = stored.get(key);
      WantedValues values = wanted.get(key);
      ColumnVector vector = batches.column(key);
      if (values.tells(column)) {
        for (int row = 0; row < matches.length; row++) {
          matches[row] = matches[row] && values.has(column, vector, row);
        }
      }
    }
    for (int row = 0; row < matches.length; row++) {
      if (matches[row] && !file.isDeleted(batches.place(row))) {
        Object[] given = new Object[ids.length + 2];
        for (int key = 0; key < keys; key++) {
          given[key] = stored.get(key).value(batches.column(key), row);
        }
        given[ids.length] = location;
        given[ids.length + 1] = batches.place(row);
        rows.add(given);
      }
    }
  }

  /** Reads the other columns of matching rows. */
  private void complete(
      OpenedFile file, ParquetMetadata footer, List<StoredColumn> others, List<Object[]> rows)
      throws IOException {
    long[] places = rows.stream().mapToLong(row -> (Long) row[ids.length + 1]).toArray();
    MessageType schema = footer.getFileMetaData().getSchema();
    try (ParquetFileReader reader = file.reader(footer, OpenedFile.options().build())) {
      reader.setRequestedSchema(ReadBatches.schema(schema, others));
      long count = 0;
      List<Integer> groups = new ArrayList<>();
      List<RowRanges> ranges = new ArrayList<>();
      for (int group = 0; group < footer.getBlocks().size(); group++) {
        RowRanges chosen = chosen(reader, footer.getBlocks().get(group), others.get(0), places);
        if (chosen.rowCount() > 0) {
          groups.add(group);
          ranges.add(chosen);
          count += chosen.rowCount();
        }
      }
      Iterator<Integer> group = groups.iterator();
      Iterator<RowRanges> range = ranges.iterator();
      ReadBatches.Groups pages = () -> group.hasNext()
          ? reader.readFilteredRowGroup(group.next(), range.next()) : null;
      try (ReadBatches batches = new ReadBatches(schema, others, pages, count)) {
        complete(others, batches, places, rows);
      }
    }
  }

  private void complete(List<StoredColumn> others, ReadBatches batches, long[] places, List<Object[]> rows)
      throws IOException {
    int next = 0;
    while (next < places.length && batches.next()) {
      for (int row = 0; row < batches.size() && next < places.length; row++) {
        if (batches.place(row) == places[next]) {
          for (int column = keys; column < ids.length; column++) {
            rows.get(next)[column] = others.get(column - keys).value(batches.column(column - keys), row);
          }
          next++;
        }
      }
    }
  }

  /** Returns the row ranges of a row group in which the pages of a column contain some of the positions. */
  private static RowRanges chosen(
      ParquetFileReader reader, BlockMetaData block, StoredColumn column, long[] places)
      throws IOException {
    long before = block.getRowIndexOffset();
    if (!isAny(places, before, before + block.getRowCount() - 1)) {
      return RowRanges.EMPTY;
    }
    ColumnPath path = ColumnPath.get(column.descriptor().getPath());
    ColumnChunkMetaData chunk =
        block.getColumns().stream().filter(each -> each.getPath().equals(path)).findFirst().orElseThrow();
    OffsetIndex pages = reader.readOffsetIndex(chunk);
    if (pages == null) {
      return RowRanges.createSingle(block.getRowCount());
    }
    IntStream some =
        IntStream.range(0, pages.getPageCount())
            .filter(
                page ->
                    isAny(places, before + pages.getFirstRowIndex(page),
                        before + pages.getLastRowIndex(page, block.getRowCount())));
    return RowRanges.create(block.getRowCount(), some.iterator(), pages);
  }

  private static boolean isAny(long[] places, long first, long last) {
    int found = Arrays.binarySearch(places, first);
    int next = found >= 0 ? found : -found - 1;
    return next < places.length && places[next] <= last;
  }
}
