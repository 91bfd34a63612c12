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
 * Splits {@code a IN (…)} with a long list into an equivalent OR of short lists.
 *
 * <p>Spark's {@code toJSON()} searches for each child of an expression among all its children. For a list of
 * 8,000 literals it takes seconds, and four times as long for twice as many.
 */
public final class ShortLists extends AbstractPartialFunction<Expression, Expression> {
  private static final int MOST = 64;
  private static final ShortLists RULE = new ShortLists();

  private ShortLists() {}

  /** Returns the plan without long lists, in its subqueries as well. */
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

  // Java cannot infer that a slice of a Seq is a Seq.
  @SuppressWarnings("unchecked")
  private static Expression split(Expression value, Seq<Expression> list) {
    int size = list.size();
    if (size <= MOST) {
      return new In(value, list);
    }
    // A balanced tree, because readers of the plan may recurse.
    return new Or(
        split(value, (Seq<Expression>) list.slice(0, size / 2)),
        split(value, (Seq<Expression>) list.slice(size / 2, size)));
  }
}
