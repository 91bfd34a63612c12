package freshtable.operators;

import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Some;

/** Interval join: pairs of rows from two streams whose event times are equal or within an interval. */
public final class IntervalJoin {
  private static final long ANY_WATERMARK = 1_000_000L;

  private IntervalJoin() {}

  /**
   * Returns whether the watermark bounds Spark's state. If so, rows of both sides are removed when they can
   * no longer match.
   */
  public static boolean isBounded(Join join) {
    return StreamingJoinHelper.isWatermarkInJoinKeys(join)
        || (isBounded(join, join.left(), join.right()) && isBounded(join, join.right(), join.left()));
  }

  private static boolean isBounded(Join join, LogicalPlan side, LogicalPlan other) {
    AttributeSet rows = side.outputSet(), times = other.outputSet();
    return StreamingJoinHelper.getStateValueWatermark(
        rows, times, join.condition(), new Some<>(ANY_WATERMARK)).isDefined();
  }
}
