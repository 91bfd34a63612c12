package freshtable.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.parquet.schema.MessageType;

/** The rows at given positions of a Parquet file, read from the pages that contain them. */
final class PlacedRows {
  private PlacedRows() {}

  /** Receives a row of a batch, the one at the given position. */
  interface Taker {
    void take(int place, ReadBatches batches, int row);
  }

  /** Reads columns of the rows at the positions in ascending order. {@code taker} gets the index of each. */
  static void read(
      OpenedFile file, ParquetMetadata footer, List<StoredColumn> columns, long[] places, Taker taker)
      throws IOException {
    MessageType schema = footer.getFileMetaData().getSchema();
    try (ParquetFileReader reader = file.reader(footer, OpenedFile.options().build())) {
      reader.setRequestedSchema(ReadBatches.schema(schema, columns));
      long count = 0;
      List<Integer> groups = new ArrayList<>();
      List<RowRanges> ranges = new ArrayList<>();
      for (int group = 0; group < footer.getBlocks().size(); group++) {
        RowRanges chosen = chosen(reader, footer.getBlocks().get(group), columns.get(0), places);
        if (chosen.rowCount() > 0) {
          groups.add(group);
          ranges.add(chosen);
          count += chosen.rowCount();
        }
      }
      Iterator<Integer> group = groups.iterator();
      Iterator<RowRanges> range = ranges.iterator();
      ReadBatches.Groups pages = () -> group.hasNext()
          ? read(reader, group.next(), range.next()) : null;
      try (ReadBatches batches = new ReadBatches(schema, columns, pages, count)) {
        take(batches, places, taker);
      }
    }
  }

  private static PageReadStore read(ParquetFileReader reader, int group, RowRanges ranges)
      throws IOException {
    return ranges.rowCount() == reader.getRowGroups().get(group).getRowCount()
        ? reader.readRowGroup(group) : reader.readFilteredRowGroup(group, ranges);
  }

  private static void take(ReadBatches batches, long[] places, Taker taker) throws IOException {
    int next = 0;
    while (next < places.length && batches.next()) {
      int size = batches.size();
      for (int row = 0; row < size && next < places.length; row++) {
        if (batches.place(row) == places[next]) {
          taker.take(next++, batches, row);
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
