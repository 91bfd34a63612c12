package freshtable.operators;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/**
 * Numbers the rows of a batch in the order in which they are read. A repetition of the batch gets the same
 * numbers.
 *
 * <p>The numbers are needed because a shuffle does not preserve the order of rows from different tasks, and
 * Spark rejects its own monotonically_increasing_id() in streams.
 */
final class ArrivalNumber extends AbstractFunction0<Object> implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int ROWS_OF_TASK_BITS = 40;

  private transient boolean started;
  private transient long next;

  private ArrivalNumber() {}

  /** Returns the expression, a LONG that increases with each row of a task. */
  static Expression expression() {
    return new ScalaUDF(
        new ArrivalNumber(), DataTypes.LongType,
        none(), none(), scala.Option.empty(), scala.Option.apply("arrival"), false,
        false);
  }

  @Override
  public Object apply() {
    if (!started) {
      started = true;
      next = (long) TaskContext.getPartitionId() << ROWS_OF_TASK_BITS;
    }
    return next++;
  }

  private static <T> scala.collection.immutable.Seq<T> none() {
    return CollectionConverters.<T>asScala(List.of()).toSeq();
  }
}
