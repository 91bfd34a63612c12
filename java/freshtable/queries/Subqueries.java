package freshtable.queries;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** The subqueries in the expressions of plans. */
final class Subqueries {
  private Subqueries() {}

  /** Returns the plans of all subqueries in a plan, and in these, by the id of their expressions. */
  static Map<ExprId, LogicalPlan> all(LogicalPlan plan) {
    Map<ExprId, LogicalPlan> found = new LinkedHashMap<>();
    add(plan, found);
    return found;
  }

  private static void add(LogicalPlan plan, Map<ExprId, LogicalPlan> found) {
    if (!plan.containsPattern(TreePattern.PLAN_EXPRESSION())) {
      return;
    }
    CollectionConverters.asJava(plan.expressions()).forEach(each -> add(each, found));
    CollectionConverters.asJava(plan.children()).forEach(each -> add(each, found));
  }

  private static void add(Expression expression, Map<ExprId, LogicalPlan> found) {
    if (expression instanceof SubqueryExpression subquery
        && found.putIfAbsent(subquery.exprId(), subquery.plan()) == null) {
      add(subquery.plan(), found);
    }
    CollectionConverters.asJava(expression.children()).forEach(each -> add(each, found));
  }

  /** Returns a plan with other plans for the subqueries in its own expressions and in those below it. */
  static LogicalPlan replaced(LogicalPlan plan, Function<SubqueryExpression, LogicalPlan> plans) {
    return plan.containsPattern(TreePattern.PLAN_EXPRESSION())
        ? plan.transformAllExpressions(new Replaced(plans))
        : plan;
  }

  /** Returns an operator with other plans for the subqueries in its own expressions. */
  static LogicalPlan replacedIn(LogicalPlan operator, Function<SubqueryExpression, LogicalPlan> plans) {
    return operator.containsPattern(TreePattern.PLAN_EXPRESSION())
        ? operator.transformExpressions(new Replaced(plans))
        : operator;
  }

  private static final class Replaced extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1;
    private final transient Function<SubqueryExpression, LogicalPlan> plans;

    Replaced(Function<SubqueryExpression, LogicalPlan> plans) {
      this.plans = plans;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof SubqueryExpression;
    }

    @Override
    public Expression apply(Expression expression) {
      SubqueryExpression subquery = (SubqueryExpression) expression;
      return subquery.withNewPlan(plans.apply(subquery));
    }
  }
}
