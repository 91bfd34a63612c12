package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** The rows that come first, of rows that are only added: as many pass as fit, after those that are left out, and none after them. */
public final class LimitedRows extends StatefulProcessor<InternalRow, InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;

  private final int first;
  private final int last;
  private final KeptState kept;
  private transient ValueState<Long> count;

  private LimitedRows(int first, int last, KeptState kept) {
    this.first = first;
    this.last = last;
    this.kept = kept;
  }

  /** Returns a plan of the rows of each of the {@code keys} with the numbers {@code first} to {@code last}, from 1 on. */
  public static LogicalPlan of(LogicalPlan child, List<Expression> keys, int first, int last, KeptState kept) {
    return KeyedRows.transformed(
        child, keys, CollectionConverters.asJava(child.output()), new LimitedRows(first, last, kept));
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    count = getHandle().getValueState(kept.name(), Encoders.LONG(), kept.ttl());
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    long before = count.exists() ? count.get() : 0, number = before;
    List<InternalRow> passed = new ArrayList<>();
    while (number < last && rows.hasNext()) {
      InternalRow row = rows.next();
      number++;
      if (number >= first) {
        passed.add(row.copy());
      }
    }
    if (number > before) {
      count.update(number);
    }
    return CollectionConverters.asScala(passed.iterator());
  }
}
