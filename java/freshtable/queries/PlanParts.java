package freshtable.queries;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.analysis.DeduplicateRelations;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Parts of plans.
 *
 * <p>They are cut from the plan and not from the text of the query, so that they keep what the analysis has
 * added: casts, resolved names and functions.
 */
final class PlanParts {
  private PlanParts() {}

  /** Returns a condition of a filter or a join: one of those that AND combines there. */
  static Expression condition(LogicalPlan operator, int number) {
    Expression all = operator instanceof Join join ? join.condition().get() : ((Filter) operator).condition();
    return conjuncts(all).get(number);
  }

  private static List<Expression> conjuncts(Expression condition) {
    if (!(condition instanceof And and)) {
      return List.of(condition);
    }
    List<Expression> both = new ArrayList<>(conjuncts(and.left()));
    both.addAll(conjuncts(and.right()));
    return both;
  }

  /**
   * Returns an expression of an operator as an expression over rows of a relation below it. Between them there
   * are only operators that pass or rename columns.
   */
  static Expression overRows(
      Expression expression, LogicalPlan operator, Predicate<LogicalPlan> isRelation, LogicalPlan rows) {
    Expression over = expression;
    for (LogicalPlan below : pathTo(isRelation, operator)) {
      if (below != operator && below instanceof Project project) {
        over = replaced(over, valuesOf(project));
      }
      if (isRelation.test(below)) {
        over = replaced(over, columnsOf(below, rows));
      }
    }
    if (!over.references().subsetOf(rows.outputSet())) {
      throw new IllegalArgumentException("The condition " + expression + " reads other columns.");
    }
    return over;
  }

  /** Returns the operators from {@code root} to the relation, or an empty list if it is not below. */
  private static List<LogicalPlan> pathTo(Predicate<LogicalPlan> isRelation, LogicalPlan root) {
    List<LogicalPlan> path = new ArrayList<>(List.of(root));
    if (isRelation.test(root)) {
      return path;
    }
    for (LogicalPlan child : CollectionConverters.asJava(root.children())) {
      List<LogicalPlan> below = pathTo(isRelation, child);
      if (!below.isEmpty()) {
        path.addAll(below);
        return path;
      }
    }
    return List.of();
  }

  private static Map<ExprId, Expression> valuesOf(Project project) {
    Map<ExprId, Expression> values = new HashMap<>();
    CollectionConverters.asJava(project.projectList()).forEach(item -> {
      if (item instanceof Alias alias) {
        values.put(alias.exprId(), alias.child());
      }
    });
    return values;
  }

  private static Map<ExprId, Expression> columnsOf(LogicalPlan relation, LogicalPlan rows) {
    Map<String, Attribute> given = columnsOf(rows);
    Map<ExprId, Expression> columns = new HashMap<>();
    CollectionConverters.asJava(relation.output()).forEach(column -> {
      if (given.containsKey(column.name())) {
        columns.put(column.exprId(), given.get(column.name()));
      }
    });
    return columns;
  }

  /** Returns the columns of a plan by their names. */
  static Map<String, Attribute> columnsOf(LogicalPlan rows) {
    Map<String, Attribute> columns = new HashMap<>();
    CollectionConverters.asJava(rows.output()).forEach(each -> columns.put(each.name(), each));
    return columns;
  }

  /** Returns an expression as a column with a name and an id. */
  static NamedExpression named(Expression value, String name, ExprId id) {
    return new Alias(value, name, id, sequence(List.of()), Option.empty(), sequence(List.of()));
  }

  /** Returns a plan of the same rows in which all columns have ids that no other plan has. */
  static LogicalPlan fresh(LogicalPlan plan) {
    Join twice = new Join(plan, plan, Inner$.MODULE$, Option.empty(), JoinHint.NONE());
    return DeduplicateRelations.apply(twice).children().apply(1);
  }

  /**
   * Raises an exception if an operator reads columns that its children do not have, by their ids or, in a
   * UNION, by their positions.
   */
  static void check(LogicalPlan plan) {
    if (plan instanceof Union union) {
      CollectionConverters.asJava(union.children()).forEach(each -> {
        if (each.output().size() != union.output().size()) {
          throw new IllegalArgumentException("There are not all columns for a UNION.");
        }
      });
    }
    if (plan.missingInput().nonEmpty()) {
      throw new IllegalArgumentException(
          "There are no columns " + plan.missingInput().mkString(", ") + " for " + plan.simpleStringWithNodeId());
    }
    CollectionConverters.asJava(plan.children()).forEach(PlanParts::check);
    CollectionConverters.asJava(plan.subqueries()).forEach(PlanParts::check);
  }

  /** Returns the items of a list as a Scala Seq. */
  @SuppressWarnings("unchecked")
  static <T> Seq<T> sequence(List<? extends T> items) {
    return (Seq<T>) CollectionConverters.asScala(items).toSeq();
  }

  private static Expression replaced(Expression expression, Map<ExprId, Expression> values) {
    return expression.transformUp(new Replaced(values));
  }

  /** Replaces attributes by their values. */
  private static final class Replaced extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1;
    private final transient Map<ExprId, Expression> values;

    Replaced(Map<ExprId, Expression> values) {
      this.values = values;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof Attribute attribute && values.containsKey(attribute.exprId());
    }

    @Override
    public Expression apply(Expression expression) {
      return values.get(((Attribute) expression).exprId());
    }
  }
}
