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
 * The rows of a table's readers, one reader after the other, in the consuming thread.
 *
 * <p>The readers are those of ordinary Spark tasks, so deletes and renamed columns are handled in the same
 * way.
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
   * Plans a scan of some columns of a table, which may be metadata columns. The source of the scan is not
   * needed after this returns.
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

  /** Returns the columns in the order of the rows. */
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

  /** An iteration over all rows. Each row is valid until the next row is read. */
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

    /** Advances to the next row or batch, or to the next reader. Returns false at the end. */
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
