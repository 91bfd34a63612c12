package freshtable.queries;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Values of scalar subqueries that are given as relations of one row.
 *
 * <p>An inline plan is run again with other values, so a value must not be in the plan, and Spark would start a
 * job for a subquery. Therefore the row is joined below the operator that reads it. Where this is not
 * possible, the subquery remains, over the given row.
 */
final class GivenValues {
  private GivenValues() {}

  /**
   * Returns an operator that reads given values as columns.
   *
   * @param given returns the relation of the value of a subquery, or null if it is not given
   */
  static LogicalPlan in(LogicalPlan operator, Function<SubqueryExpression, LogicalPlan> given) {
    if (!operator.containsPattern(TreePattern.SCALAR_SUBQUERY()) || !canJoin(operator)) {
      return operator;
    }
    Map<ExprId, LogicalPlan> rows = new HashMap<>();
    LogicalPlan over = operator.transformExpressions(new Columns(given, rows));
    if (rows.isEmpty()) {
      return operator;
    }
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(over.children()));
    JoinHint hint = new JoinHint(Option.empty(), Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$))));
    for (LogicalPlan row : rows.values()) {
      children.set(0, new Join(children.get(0), row, Inner$.MODULE$, Option.empty(), hint));
    }
    LogicalPlan joined = over.withNewChildren(PlanParts.sequence(children));
    return joined instanceof Filter || joined instanceof Join
        ? new Project(PlanParts.sequence(CollectionConverters.asJava(operator.output())), joined)
        : joined;
  }

  private static boolean canJoin(LogicalPlan operator) {
    return operator instanceof Project
        || operator instanceof Filter
        || operator instanceof Join
        || operator instanceof Aggregate aggregate && readsNoneOutside(aggregate);
  }

  /** Returns whether only the keys and the functions of an aggregate have subqueries, not its columns. */
  private static boolean readsNoneOutside(Aggregate aggregate) {
    Set<Expression> keys = new HashSet<>();
    CollectionConverters.asJava(aggregate.groupingExpressions()).forEach(each -> keys.add(each.canonicalized()));
    return CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .noneMatch(each -> readsOutside((Expression) each, keys));
  }

  private static boolean readsOutside(Expression expression, Set<Expression> keys) {
    if (expression instanceof AggregateExpression || keys.contains(expression.canonicalized())) {
      return false;
    }
    return expression instanceof SubqueryExpression
        || CollectionConverters.asJava(expression.children()).stream().anyMatch(each -> readsOutside(each, keys));
  }

  /** Replaces subqueries by columns of relations, and collects these. */
  private static final class Columns extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1;
    private final transient Function<SubqueryExpression, LogicalPlan> given;
    private final transient Map<ExprId, LogicalPlan> rows;

    Columns(Function<SubqueryExpression, LogicalPlan> given, Map<ExprId, LogicalPlan> rows) {
      this.given = given;
      this.rows = rows;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof SubqueryExpression subquery && given.apply(subquery) != null;
    }

    @Override
    public Expression apply(Expression expression) {
      SubqueryExpression subquery = (SubqueryExpression) expression;
      return rows.computeIfAbsent(subquery.exprId(), id -> PlanParts.fresh(given.apply(subquery)))
          .output()
          .apply(0);
    }
  }
}
