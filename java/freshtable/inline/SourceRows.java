package freshtable.inline;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows that the readers of a table give, one reader after the other, in the thread that takes them.
 *
 * <p>They are the readers that the tasks of a job have: what Spark reads of a table,
 * with its deletes and its renamed columns, is read here.
 */
public final class SourceRows implements Iterable<InternalRow> {
  private static final Map<String, String> WHOLE_FILES =
      Map.of("split-size", String.valueOf(Integer.MAX_VALUE));
  private final StructType columns;
  private final InputPartition[] parts;
  private final PartitionReaderFactory readers;

  private SourceRows(Scan scan) {
    Batch batch = scan.toBatch();
    this.columns = scan.readSchema();
    this.parts = batch.planInputPartitions();
    this.readers = batch.createReaderFactory();
  }

  /**
   * Plans a scan of some columns of a table, which may be metadata;
   * what the scan reads may be gone once this returns.
   */
  public static SourceRows of(SparkSession session, SupportsRead table, StructType columns) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(WHOLE_FILES);
    return session.withActive(
        () -> {
          ScanBuilder scan = table.newScanBuilder(options);
          ((SupportsPushDownRequiredColumns) scan).pruneColumns(columns);
          return new SourceRows(scan.build());
        });
  }

  /** Returns the columns in the order that the rows have them. */
  public StructType columns() {
    return columns;
  }

  @Override
  public Iterator<InternalRow> iterator() {
    Read read = new Read();
    TaskContext.get()
        .addTaskCompletionListener(
            (TaskCompletionListener)
                ended -> {
                  InlineTasks.read((TaskContextImpl) ended, read.rows);
                  read.close();
                });
    return read;
  }

  /** One reading of all rows; each is valid until the next one is asked for. */
  private final class Read implements Iterator<InternalRow> {
    private int next;
    private PartitionReader<?> reader;
    private boolean columnar;
    private Iterator<InternalRow> batch = Collections.emptyIterator();
    private InternalRow row;
    private long rows;

    @Override
    public boolean hasNext() {
      try {
        while (row == null && (batch.hasNext() || advance())) {
          if (batch.hasNext()) {
            row = batch.next();
          }
        }
        return row != null;
      } catch (IOException cause) {
        throw new UncheckedIOException(cause);
      }
    }

    /** Takes the next row or batch of a reader, or the next reader; returns false if there is none. */
    private boolean advance() throws IOException {
      if (reader != null && reader.next()) {
        if (columnar) {
          batch = ((ColumnarBatch) reader.get()).rowIterator();
        } else {
          row = (InternalRow) reader.get();
        }
        return true;
      }
      close();
      if (next == parts.length) {
        return false;
      }
      InputPartition part = parts[next++];
      columnar = readers.supportColumnarReads(part);
      reader = columnar ? readers.createColumnarReader(part) : readers.createReader(part);
      return true;
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      InternalRow given = row;
      row = null;
      rows++;
      return given;
    }

    void close() {
      PartitionReader<?> read = reader;
      reader = null;
      try {
        if (read != null) {
          read.close();
        }
      } catch (IOException cause) {
        throw new UncheckedIOException(cause);
      }
    }
  }
}
