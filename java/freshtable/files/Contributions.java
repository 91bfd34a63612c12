package freshtable.files;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/**
 * What rows add to the sums and counts of a query: the aggregates of a group are the sums over its rows.
 *
 * <p>Spark optimizes the query once, over a relation without rows. The rows of each change take the way of its projections and
 * filters in this process, which takes less time than to optimize the query over them.
 */
public final class Contributions {
  private final StructType columns;
  private final List<Step> steps;

  private Contributions(StructType columns, List<Step> steps) {
    this.columns = columns;
    this.steps = steps;
  }

  /** What becomes of a row; null if nothing does. */
  private interface Step {
    InternalRow of(InternalRow row);
  }

  /** Returns a relation without rows that Spark does not leave out of a plan. */
  public static Dataset<Row> nothing(SparkSession session, StructType columns) {
    return session.internalCreateDataFrame(session.sparkContext().emptyRDD(ClassTag.apply(InternalRow.class)), columns, false);
  }

  /**
   * Returns the contributions to a query over {@link #nothing}, in its columns: grouping keys as they are.
   *
   * <p>Null if sums, counts and grouping keys are not on top of the query, or other operators than projections and filters below.
   */
  public static Contributions of(Dataset<Row> query) {
    LogicalPlan rows = contributing(query.queryExecution().analyzed());
    if (rows == null) {
      return null;
    }
    Dataset<Row> given = Dataset.ofRows(query.sparkSession(), rows);
    List<Step> steps = steps(given.queryExecution().optimizedPlan());
    return steps == null ? null : new Contributions(given.schema(), steps);
  }

  public StructType columns() {
    return columns;
  }

  /** Returns what the rows of a stream of Arrow's add, as one in base 64. */
  public synchronized String rows(byte[] stream) throws IOException {
    List<InternalRow> given = new ArrayList<>();
    for (InternalRow each : ArrowRows.rows(stream)) {
      InternalRow row = each;
      for (Step step : steps) {
        row = row == null ? null : step.of(row);
      }
      if (row != null) {
        given.add(row.copy());
      }
    }
    return ArrowRows.written(columns, given);
  }

  private static LogicalPlan contributing(LogicalPlan query) {
    if (query instanceof WithCTE with) {
      LogicalPlan rows = contributing(with.plan());
      return rows == null ? null : new WithCTE(rows, with.cteDefs());
    }
    if (!(query instanceof Aggregate aggregate)) {
      return null;
    }
    List<NamedExpression> given = new ArrayList<>();
    for (NamedExpression each : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      Expression value = contribution(each instanceof Alias alias ? alias.child() : (Expression) each, aggregate);
      if (value == null) {
        return null;
      }
      given.add(new Alias(value, each.name(), NamedExpression.newExprId(), none(), Option.empty(), none()));
    }
    return new Project(CollectionConverters.asScala(given).toSeq(), aggregate.child());
  }

  private static Expression contribution(Expression value, Aggregate aggregate) {
    if (!(value instanceof AggregateExpression call)) {
      return aggregate.groupingExpressions().exists(value::semanticEquals) ? value : null;
    }
    Expression condition = call.filter().isEmpty() ? Literal.TrueLiteral() : call.filter().get();
    if (call.aggregateFunction() instanceof Sum sum) {
      DataType type = sum.dataType();
      Expression summed = new Cast(sum.child(), type, Option.empty(), sum.evalContext().evalMode());
      return new If(condition, summed, Literal.create(null, type));
    }
    if (call.aggregateFunction() instanceof Count count) {
      for (Expression counted : CollectionConverters.asJava(count.children())) {
        condition = new And(condition, new IsNotNull(counted));
      }
      return new If(condition, Literal.create(1L, DataTypes.LongType), Literal.create(0L, DataTypes.LongType));
    }
    return null;
  }

  private static List<Step> steps(LogicalPlan optimized) {
    Deque<Step> steps = new ArrayDeque<>();
    LogicalPlan plan = optimized;
    while (!(plan instanceof LogicalRDD)) {
      if (!plan.deterministic() || CollectionConverters.asJava(plan.expressions()).stream().anyMatch(SubqueryExpression::hasSubquery)) {
        return null;
      }
      if (plan instanceof Project project) {
        Seq<Attribute> input = project.child().output();
        UnsafeProjection projection = UnsafeProjection.create(expressions(project.projectList()), input);
        steps.addFirst(projection::apply);
        plan = project.child();
      } else if (plan instanceof Filter filter) {
        BasePredicate predicate = Predicate.create(filter.condition(), filter.child().output());
        steps.addFirst(row -> predicate.eval(row) ? row : null);
        plan = filter.child();
      } else {
        return null;
      }
    }
    return new ArrayList<>(steps);
  }

  private static Seq<Expression> expressions(Seq<NamedExpression> named) {
    List<Expression> given = new ArrayList<>();
    CollectionConverters.asJava(named).forEach(each -> given.add((Expression) each));
    return CollectionConverters.asScala(given).toSeq();
  }

  private static <T> Seq<T> none() {
    return CollectionConverters.asScala(List.<T>of()).toSeq();
  }
}
