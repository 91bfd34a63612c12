package freshtable.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.types.StructType;

/** The columns of a file that is looked up, from the cache or read. It is opened only if one must be read. */
final class LookedUpFile {
  /** If places are this close on average, most pages contain one of them. */
  private static final long PAGE = 20_000;

  private final OpenedFile opened;
  private final int[] ids;
  private final StructType columns;
  private ParquetMetadata footer;
  private List<StoredColumn> stored;

  LookedUpFile(OpenedFile opened, int[] ids, StructType columns) {
    this.opened = opened;
    this.ids = ids;
    this.columns = columns;
  }

  OpenedFile opened() {
    return opened;
  }

  ParquetMetadata footer() throws IOException {
    if (footer == null) {
      footer = opened.footer();
    }
    return footer;
  }

  MessageType schema() throws IOException {
    return footer().getFileMetaData().getSchema();
  }

  /** Returns whether our reader supports all columns as the file stores them. */
  boolean isSupported() throws IOException {
    return stored() != null;
  }

  /** Returns all columns as the file stores them, or null if one of them is not supported. */
  List<StoredColumn> stored() throws IOException {
    if (stored == null) {
      stored = StoredColumn.all(schema(), ids, columns);
    }
    return stored;
  }

  /** Returns the number of rows, including deleted rows. */
  long rows() throws IOException {
    return footer().getBlocks().stream().mapToLong(BlockMetaData::getRowCount).sum();
  }

  /** Returns a column of all rows if it is cached, or null. */
  HeldColumn held(int column) {
    return HeldColumns.of(opened, ids[column], columns.apply(column).dataType());
  }

  /** Returns whether a column that must be read for the most part is to be cached, and reserves its space. */
  boolean isDue(int column) throws IOException {
    return HeldColumns.isDue(
        opened, ids[column], columns.apply(column).dataType(), stored().get(column), rows());
  }

  /** Reads and caches columns of all rows. */
  List<HeldColumn> hold(List<Integer> read) throws IOException {
    int[] chosen = read.stream().mapToInt(column -> ids[column]).toArray();
    List<StoredColumn> which = read.stream().map(stored::get).toList();
    return HeldColumns.read(opened, footer(), chosen, which);
  }

  /** Returns columns of the rows at places in ascending order, or null if they are not supported. */
  List<HeldColumn> at(long[] places, List<Integer> read) throws IOException {
    HeldColumn[] given = new HeldColumn[read.size()];
    List<Integer> due = new ArrayList<>();
    List<Integer> others = new ArrayList<>();
    for (int index = 0; index < given.length; index++) {
      HeldColumn held = held(read.get(index));
      if (held != null) {
        given[index] = held.select(places);
      } else if (!isSupported()) {
        return null;
      } else {
        (PAGE * places.length >= rows() && isDue(read.get(index)) ? due : others).add(index);
      }
    }
    if (!due.isEmpty()) {
      List<HeldColumn> whole = hold(due.stream().map(read::get).toList());
      IntStream.range(0, due.size())
          .forEach(number -> given[due.get(number)] = whole.get(number).select(places));
    }
    if (!others.isEmpty()) {
      List<StoredColumn> which = others.stream().map(index -> stored.get(read.get(index))).toList();
      others.forEach(index -> given[index] = new HeldColumn(places.length));
      PlacedRows.read(
          opened, footer(), which, places,
          (place, batches, row) -> {
            for (int number = 0; number < which.size(); number++) {
              given[others.get(number)].add(which.get(number), batches.column(number), row);
            }
          });
    }
    return List.of(given);
  }
}
