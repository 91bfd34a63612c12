package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Parts of analysed plans, evaluated over given rows instead of the rows of a relation.
 *
 * <p>A part is addressed by its path, the positions of children from the root, and a relation by its alias.
 * Parts are cut from the plan and not from the text of the query, so that they keep what the analysis has
 * added: casts, resolved names and functions.
 */
public final class PlanParts {
  private static final ObjectMapper JSON = new ObjectMapper();

  private PlanParts() {}

  /**
   * Returns the rows that satisfy conditions of a plan on a relation.
   *
   * <p>{@code places} is a JSON array of conditions. Each is an array of the path of its operator and its
   * position among the conditions that AND combines there. Between the operator and the relation there are
   * only operators that pass or rename columns. The rows have the columns of the relation that the conditions
   * read, by name.
   */
  public static Dataset<Row> filtered(
      SparkSession session, LogicalPlan plan, String alias, String places, Dataset<Row> rows)
      throws JsonProcessingException {
    Expression condition = null;
    for (JsonNode place : JSON.readTree(places)) {
      LogicalPlan operator = at(plan, place.get(0));
      Expression each = conjuncts(condition(operator)).get(place.get(1).asInt());
      Expression own = overRows(each, operator, alias, rows);
      if (own.deterministic()) {
        condition = condition == null ? own : new And(condition, own);
      }
    }
    return condition == null
        ? rows
        : Dataset.ofRows(session, new Filter(condition, rows.queryExecution().analyzed()));
  }

  /** Returns the operator at a path. */
  private static LogicalPlan at(LogicalPlan root, JsonNode path) {
    LogicalPlan operator = root;
    for (JsonNode position : path) {
      operator = operator.children().apply(position.asInt());
    }
    return operator;
  }

  private static Expression condition(LogicalPlan operator) {
    return operator instanceof Join join ? join.condition().get() : ((Filter) operator).condition();
  }

  private static List<Expression> conjuncts(Expression condition) {
    if (!(condition instanceof And and)) {
      return List.of(condition);
    }
    List<Expression> both = new ArrayList<>(conjuncts(and.left()));
    both.addAll(conjuncts(and.right()));
    return both;
  }

  /** Returns an expression of an operator as an expression over rows of a relation below the operator. */
  private static Expression overRows(
      Expression expression, LogicalPlan operator, String alias, Dataset<Row> rows) {
    Expression over = expression;
    for (LogicalPlan below : pathTo(alias, operator)) {
      if (below != operator && below instanceof Project project) {
        over = replaced(over, valuesOf(project));
      }
      if (isAlias(below, alias)) {
        over = replaced(over, columnsOf(below, rows));
      }
    }
    if (!over.references().subsetOf(rows.queryExecution().analyzed().outputSet())) {
      throw new IllegalArgumentException("The condition " + expression + " reads other columns.");
    }
    return over;
  }

  /** Returns the operators from {@code root} to the relation, or an empty list if it is not below. */
  private static List<LogicalPlan> pathTo(String alias, LogicalPlan root) {
    List<LogicalPlan> path = new ArrayList<>(List.of(root));
    if (isAlias(root, alias)) {
      return path;
    }
    for (LogicalPlan child : CollectionConverters.asJava(root.children())) {
      List<LogicalPlan> below = pathTo(alias, child);
      if (!below.isEmpty()) {
        path.addAll(below);
        return path;
      }
    }
    return List.of();
  }

  private static boolean isAlias(LogicalPlan operator, String alias) {
    return operator instanceof SubqueryAlias named && named.identifier().name().equals(alias);
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

  private static Map<ExprId, Expression> columnsOf(LogicalPlan relation, Dataset<Row> rows) {
    Map<String, Attribute> given = new HashMap<>();
    CollectionConverters.asJava(rows.queryExecution().analyzed().output())
        .forEach(column -> given.put(column.name(), column));
    Map<ExprId, Expression> columns = new HashMap<>();
    CollectionConverters.asJava(relation.output()).forEach(column -> {
      if (given.containsKey(column.name())) {
        columns.put(column.exprId(), given.get(column.name()));
      }
    });
    return columns;
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
