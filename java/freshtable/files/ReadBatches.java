package freshtable.files;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.PrimitiveIterator;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The rows of selected pages of a Parquet file with their positions, in batches that Spark's vectorized
 * reader reads.
 */
final class ReadBatches implements AutoCloseable {
  private static final int MOST_ROWS = 4096;
  private static final Class<VectorizedParquetRecordReader> READER = VectorizedParquetRecordReader.class;
  /** The name of a package-private interface of Spark. */
  private static final String GROUPS =
      "org.apache.spark.sql.execution.datasources.parquet."
          + "SpecificParquetRecordReaderBase$ParquetRowGroupReader";

  private final VectorizedParquetRecordReader reader = new VectorizedParquetRecordReader(false, MOST_ROWS);
  private final ColumnarBatch batch;
  private final long[] places = new long[MOST_ROWS];
  /** The row numbers of the current row group, or null if its rows are read without gaps. */
  private PrimitiveIterator.OfLong next;
  private long before;

  /** The row groups to read, in order. */
  interface Groups {
    /** Returns pages of the next row group, or null at the end. */
    PageReadStore next() throws IOException;
  }

  /** Reads some columns of the {@code rows} rows in all pages of {@code groups}. */
  ReadBatches(MessageType file, List<StoredColumn> columns, Groups groups, long rows) throws IOException {
    try {
      ClassLoader spark = READER.getClassLoader();
      Class<?> type = Class.forName(GROUPS, true, spark);
      Object given =
          Proxy.newProxyInstance(
              spark, new Class<?>[] {type},
              (proxy, method, none) -> method.getName().equals("close") ? null : begun(groups));
      READER.getMethod("initialize", MessageType.class, MessageType.class, type, int.class)
          .invoke(reader, file, schema(file, columns), given, Math.toIntExact(rows));
      batch = reader.resultBatch();
    } catch (InvocationTargetException cause) {
      reader.close();
      throw new IOException(cause.getCause());
    } catch (ReflectiveOperationException | RuntimeException cause) {
      reader.close();
      throw new IllegalStateException(cause);
    }
  }

  static MessageType schema(MessageType file, List<StoredColumn> columns) {
    return new MessageType(file.getName(), columns.stream().<Type>map(StoredColumn::stored).toList());
  }

  private PageReadStore begun(Groups groups) throws IOException {
    PageReadStore pages = groups.next();
    if (pages != null) {
      before = pages.getRowIndexOffset().orElseThrow();
      next = pages.getRowIndexes().orElse(null);
    }
    return pages;
  }

  /** Reads the next batch. Returns false at the end. */
  boolean next() throws IOException {
    if (!reader.nextBatch()) {
      return false;
    }
    int size = size();
    for (int row = 0; row < size; row++) {
      places[row] = next == null ? before++ : before + next.nextLong();
    }
    return true;
  }


  int size() {
    return batch.numRows();
  }

  long place(int row) {
    return places[row];
  }

  /** Returns the values of the column with this index. */
  ColumnVector column(int number) {
    return batch.column(number);
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }
}
