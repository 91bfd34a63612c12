package freshtable.operators;

import java.time.Duration;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** Deduplication: of each key the row that comes first passes, and none after it until the state of the key has expired. */
public final class FirstRows extends StatefulProcessor<InternalRow, InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;

  private final long ttlMillis;
  private transient ValueState<Boolean> seen;

  private FirstRows(long ttlMillis) {
    this.ttlMillis = ttlMillis;
  }

  /** Returns a plan of the first row of each of the {@code keys}, with the columns of {@code child}. */
  public static LogicalPlan of(LogicalPlan child, List<Expression> keys, long ttlMillis) {
    return KeyedRows.transformed(child, keys, CollectionConverters.asJava(child.output()), new FirstRows(ttlMillis));
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    seen = getHandle().getValueState("deduplicateState", Encoders.BOOLEAN(), new TTLConfig(Duration.ofMillis(ttlMillis)));
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    if (seen.exists() || !rows.hasNext()) {
      return scala.collection.Iterator$.MODULE$.empty();
    }
    // Only the write sets the time at which the state expires: rows that follow do not.
    seen.update(true);
    return scala.collection.Iterator$.MODULE$.single(rows.next().copy());
  }
}
