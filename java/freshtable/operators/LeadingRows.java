package freshtable.operators;

import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * The first rows of each task and, in event time, the latest of the other rows. The task reads all rows.
 *
 * <p>Spark's own limit stops reading. An operator below it would then not store its state, and the watermark
 * would not include the rows.
 */
final class LeadingRows
    extends AbstractFunction1<scala.collection.Iterator<Object>,
    scala.collection.Iterator<Object>> implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int most;
  private final int eventTime;

  private LeadingRows(int most, int eventTime) {
    this.most = most;
    this.eventTime = eventTime;
  }

  /**
   * Returns a plan of up to {@code most} rows per task. {@code eventTime} is the column by which the latest
   * other row is selected, or negative.
   */
  static LogicalPlan of(LogicalPlan child, int most, int eventTime) {
    List<Attribute> columns = CollectionConverters.asJava(child.output());
    NamedExpression row = KeyedRows.alias(KeyedRows.struct(columns), "row");
    LogicalPlan packed = new Project(KeyedRows.<NamedExpression>seq(List.of(row)), child);
    Attribute given = KeyedRows.attribute("row", KeyedRows.struct(columns).dataType());
    LogicalPlan leading = new MapPartitions(new LeadingRows(most, eventTime), given, packed);
    return new Project(KeyedRows.seq(KeyedRows.fields(given, columns)), leading);
  }

  @Override
  public scala.collection.Iterator<Object> apply(scala.collection.Iterator<Object> rows) {
    return CollectionConverters.asScala(new Rows(rows));
  }

  private final class Rows implements Iterator<Object> {
    private final scala.collection.Iterator<Object> rows;
    private int number = 0;
    private InternalRow latest = null;

    Rows(scala.collection.Iterator<Object> rows) {
      this.rows = rows;
    }

    @Override
    public boolean hasNext() {
      while (number >= most && rows.hasNext()) {
        take((InternalRow) rows.next());
      }
      return number < most ? rows.hasNext() : latest != null;
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      if (number < most) {
        number++;
        return rows.next();
      }
      InternalRow row = latest;
      latest = null;
      return row;
    }

    private void take(InternalRow row) {
      if (eventTime < 0) {
        return;
      }
      long at = EntryTimes.eventTime(row, eventTime);
      if (at != EntryTimes.NONE && (latest == null || at > EntryTimes.eventTime(latest, eventTime))) {
        latest = row.copy();
      }
    }
  }
}
