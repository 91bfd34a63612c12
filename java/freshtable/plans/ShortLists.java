package freshtable.plans;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Writes {@code a IN (…)} with a long list as several with short ones, joined by OR, which means the same.
 *
 * <p>Spark's {@code toJSON()} looks up each child of an expression among all of its children:
 * of a list of 8,000 literals it takes seconds, of twice as many four times as long.
 */
public final class ShortLists extends AbstractPartialFunction<Expression, Expression> {
  private static final int MOST = 64;
  private static final ShortLists RULE = new ShortLists();

  private ShortLists() {}

  /** Returns the plan, also that of a subquery in it, without long lists. */
  public static LogicalPlan of(LogicalPlan plan) {
    return plan.containsPattern(TreePattern.IN())
        ? plan.transformAllExpressionsWithSubqueries(RULE)
        : plan;
  }

  @Override
  public boolean isDefinedAt(Expression expression) {
    return expression instanceof In in && in.list().size() > MOST;
  }

  @Override
  public <A extends Expression, B> B applyOrElse(
      A expression, scala.Function1<A, B> otherwise) {
    if (!isDefinedAt(expression)) {
      return otherwise.apply(expression);
    }
    In in = (In) expression;
    @SuppressWarnings("unchecked")
    B split = (B) split(in.value(), in.list());
    return split;
  }

  // Java does not see that a part of a Seq is one.
  @SuppressWarnings("unchecked")
  private static Expression split(Expression value, Seq<Expression> list) {
    int size = list.size();
    if (size <= MOST) {
      return new In(value, list);
    }
    // Balanced: who reads the plan may go down by recursion.
    return new Or(
        split(value, (Seq<Expression>) list.slice(0, size / 2)),
        split(value, (Seq<Expression>) list.slice(size / 2, size)));
  }
}
