package freshtable.inline;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.TakeOrderedAndProjectExec;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec;
import org.apache.spark.sql.execution.joins.ShuffledHashJoinExec;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Converts physical plans to plans over a single partition, which take no job. */
final class SinglePartition {
  private SinglePartition() {}

  /** Returns a plan, to which Spark has not yet added exchanges, with joins that take no job. */
  static SparkPlan joined(SparkPlan plan) {
    return plan.transformUp(new Joins());
  }

  /** Returns a plan with exchanges as a plan of one partition without them. */
  static SparkPlan of(SparkPlan made) {
    SparkPlan plan = made.transformUp(new Together());
    if (plan.exists(InlineBroadcast.class::isInstance)) {
      plan = plan.transformUp(new Interpreted());
    }
    return together(plan);
  }

  private static SparkPlan together(SparkPlan plan) {
    return plan.outputPartitioning().numPartitions() == 1 ? plan : new CoalesceExec(1, plan);
  }

  /**
   * Replaces joins without equality that find the rows without a partner on the broadcast side, for which
   * Spark runs a job.
   *
   * <p>An outer, semi, anti or existence join finds them on the other side if that is the one it preserves. A
   * full outer join becomes a hash join of rows with the same key.
   */
  private static final class Joins extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1;
    private static final Seq<Expression> KEY =
        CollectionConverters.<Expression>asScala(
                List.of(Literal.create(0, DataTypes.IntegerType))).toSeq();

    @Override
    public boolean isDefinedAt(SparkPlan plan) {
      return plan instanceof BroadcastNestedLoopJoinExec join && !(join.joinType() instanceof InnerLike);
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
      BroadcastNestedLoopJoinExec join = (BroadcastNestedLoopJoinExec) plan;
      JoinType type = join.joinType();
      if (type.equals(FullOuter$.MODULE$)) {
        return new ShuffledHashJoinExec(
            KEY, KEY, type, BuildRight$.MODULE$, join.condition(), join.left(), join.right(), false);
      }
      BuildSide side = type.equals(RightOuter$.MODULE$) ? BuildLeft$.MODULE$ : BuildRight$.MODULE$;
      return new BroadcastNestedLoopJoinExec(join.left(), join.right(), side, type, join.condition());
    }
  }

  /**
   * Replaces exchanges, which only merge partitions here, and broadcasts, which are values of this process.
   * Merges the partitions of which an operator would merge the rows by an exchange of its own.
   */
  private static final class Together extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1;

    @Override
    public boolean isDefinedAt(SparkPlan plan) {
      return plan instanceof ShuffleExchangeExec
          || plan instanceof BroadcastExchangeExec
          || plan instanceof TakeOrderedAndProjectExec
          || plan instanceof CollectLimitExec;
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
      if (plan instanceof BroadcastExchangeExec broadcast) {
        return new InlineBroadcast(broadcast.mode(), broadcast.child());
      }
      if (plan instanceof ShuffleExchangeExec exchange) {
        return new CoalesceExec(1, exchange.child());
      }
      SparkPlan child = together(plan.children().head());
      return plan.withNewChildren(CollectionConverters.asScala(List.of(child)).toSeq());
    }
  }

  /** Disables code generation for stages. */
  private static final class Interpreted extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1;

    @Override
    public boolean isDefinedAt(SparkPlan plan) {
      return plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter;
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
      return plan.children().head();
    }
  }
}
