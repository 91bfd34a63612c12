package freshtable.files;

import freshtable.inline.Rows;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.iceberg.FileScanTask;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.jdk.javaapi.CollectionConverters;

/** Collects rows of a file that one of Iceberg's readers reads. */
final class ChosenRows implements TaskReaders.Taker {
  private final Rows rows;
  private final UnsafeProjection values;
  private final Choice choice;
  private final AtomicLong left;

  /** Says which rows to collect. */
  interface Choice {
    boolean takes(FileScanTask task, InternalRow row);
  }

  private ChosenRows(Rows rows, List<Expression> values, Choice choice, AtomicLong left) {
    this.rows = rows;
    this.values = UnsafeProjection.create(CollectionConverters.asScala(values).toSeq());
    this.choice = choice;
    this.left = left;
  }

  /**
   * Adds the chosen rows of a reader to {@code rows}, whose columns have the {@code values}, and returns
   * these, or null if there are more than {@code left}, the number of rows that all readers may still add.
   */
  static Rows read(
      TaskReaders readers, int number, Rows rows, List<Expression> values, Choice choice, AtomicLong left)
      throws IOException {
    readers.read(number, new ChosenRows(rows, values, choice, left));
    return left.get() < 0 ? null : rows;
  }

  @Override
  public void batch(FileScanTask task, ColumnarBatch batch) {
    batch.rowIterator().forEachRemaining(row -> row(task, row));
  }

  @Override
  public void row(FileScanTask task, InternalRow row) {
    if (left.get() >= 0 && choice.takes(task, row) && left.decrementAndGet() >= 0) {
      rows.add(values.apply(row));
    }
  }
}
