package freshtable.queries;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.NumericEvalContext;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The groups of an aggregate as partial sums, which can be added and subtracted, and what its functions return
 * for them.
 *
 * <p>The columns are the grouping values {@code k0, k1, …}, the number of {@code rows}, and for the i-th
 * aggregate function the sum {@code s<i>} of its arguments, if it needs that, and the number {@code n<i>} of
 * those that are not NULL. A sum is exact: a DECIMAL(38) with the scale of the argument. A bag of such rows
 * stands for the groups that {@link #folded} returns.
 *
 * <p>A DISTINCT function needs to know how many rows have each value of its argument. If there are no grouping
 * values, the arguments of these functions take their place, and the functions are evaluated over the groups.
 */
final class Partials {
  private static final String ROWS = "rows";
  private static final Literal ONE = Literal.create(1, DataTypes.IntegerType);
  private static final Literal NONE = Literal.create(0L, DataTypes.LongType);
  private static final DataType EXACT_IN_DOUBLES = new DecimalType(15, 0);

  private final Aggregate aggregate;
  private final List<Expression> keys;
  private final List<AggregateExpression> functions;

  private Partials(Aggregate aggregate) {
    this.aggregate = aggregate;
    this.functions = functionsOf(aggregate);
    List<Expression> grouping = CollectionConverters.asJava(aggregate.groupingExpressions());
    this.keys =
        grouping.isEmpty()
            ? functions.stream().filter(AggregateExpression::isDistinct).map(Partials::distinct).toList()
            : grouping;
  }

  /** Returns the partial sums of an aggregate, which has only functions that they can give. */
  static Partials of(Aggregate aggregate) {
    Partials partials = new Partials(aggregate);
    for (AggregateExpression each : partials.functions) {
      AggregateFunction function = each.aggregateFunction();
      boolean known = function instanceof Count || function instanceof Sum || function instanceof Average;
      boolean sums = known && !(sums(function) && sumType(function) == null);
      boolean ofKeys = aggregate.groupingExpressions().isEmpty() && function.children().size() == 1;
      if (!(each.isDistinct() ? ofKeys : sums)) {
        throw new IllegalArgumentException("Partial sums do not give " + each.sql() + ".");
      }
    }
    return partials;
  }

  /** Returns the different aggregate functions of an aggregate, in the order in which it calls them. */
  static List<AggregateExpression> functionsOf(Aggregate aggregate) {
    Map<Expression, AggregateExpression> found = new LinkedHashMap<>();
    CollectionConverters.asJava(aggregate.aggregateExpressions()).forEach(each -> add((Expression) each, found));
    return List.copyOf(found.values());
  }

  /** Returns a plan that is equal for aggregates with the same keys and functions of the same rows. */
  static LogicalPlan canonical(Aggregate aggregate) {
    List<Expression> keys = CollectionConverters.asJava(aggregate.groupingExpressions());
    List<NamedExpression> columns = new ArrayList<>();
    keys.forEach(each -> columns.add(named(each, "")));
    functionsOf(aggregate).forEach(each -> columns.add(named(each, "")));
    return new Aggregate(
            aggregate.groupingExpressions(), PlanParts.sequence(columns), aggregate.child(), Option.empty())
        .canonicalized();
  }

  private static void add(Expression expression, Map<Expression, AggregateExpression> found) {
    if (expression instanceof AggregateExpression function) {
      found.putIfAbsent(function.canonicalized(), function);
    } else {
      CollectionConverters.asJava(expression.children()).forEach(each -> add(each, found));
    }
  }

  /** Returns the names and types of the columns. */
  StructType schema() {
    StructType schema = new StructType();
    for (int i = 0; i < keys.size(); i++) {
      schema = schema.add(key(i), keys.get(i).dataType().asNullable());
    }
    schema = schema.add(ROWS, DataTypes.LongType);
    for (int i = 0; i < functions.size(); i++) {
      if (functions.get(i).isDistinct()) {
        continue;
      }
      AggregateFunction function = functions.get(i).aggregateFunction();
      if (sums(function)) {
        schema = schema.add(sum(i), sumType(function));
      }
      schema = schema.add(number(i), DataTypes.LongType);
    }
    return schema;
  }

  /** Returns the partial sums of rows. */
  LogicalPlan groups(LogicalPlan rows) {
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < keys.size(); i++) {
      columns.add(named(keys.get(i), key(i)));
    }
    columns.add(named(called(new Count(PlanParts.sequence(List.of(ONE))), Option.empty()), ROWS));
    for (int i = 0; i < functions.size(); i++) {
      if (functions.get(i).isDistinct()) {
        continue;
      }
      AggregateFunction function = functions.get(i).aggregateFunction();
      Option<Expression> filter = functions.get(i).filter();
      if (sums(function)) {
        columns.add(named(total(function, filter), sum(i)));
      }
      AggregateFunction count =
          function instanceof Count ? function : new Count(PlanParts.sequence(List.of(argument(function))));
      columns.add(named(called(count, filter), number(i)));
    }
    return new Aggregate(PlanParts.sequence(keys), PlanParts.sequence(columns), rows, Option.empty());
  }

  /**
   * Returns one row for each group of which some row remains, always the same for the same groups.
   *
   * <p>The sums of a group without rows are lost. So a change of groups, in which rows that came and went may
   * be equal in number, cannot be folded.
   */
  LogicalPlan folded(LogicalPlan partials) {
    Map<String, Attribute> given = PlanParts.columnsOf(partials);
    List<Expression> by = new ArrayList<>();
    List<NamedExpression> columns = new ArrayList<>();
    for (String name : schema().fieldNames()) {
      Attribute column = given.get(name);
      if (column == null) {
        throw new IllegalArgumentException("The rows have no column " + name + ".");
      }
      Expression value = column;
      if (name.startsWith("k")) {
        by.add(column);
      } else if (name.startsWith("s")) {
        value = withoutZero(added(column), counted(given.get("n" + name.substring(1))));
      } else {
        value = counted(column);
      }
      columns.add(named(value, name));
    }
    LogicalPlan folded = new Aggregate(PlanParts.sequence(by), PlanParts.sequence(columns), partials, Option.empty());
    if (keys.isEmpty()) {
      // An aggregate without keys has a row even if it has no input.
      return folded;
    }
    return new Filter(new Not(new EqualTo(PlanParts.columnsOf(folded).get(ROWS), NONE)), folded);
  }

  /** Returns what the aggregate returns for its folded groups, in columns with the ids of its own. */
  LogicalPlan evaluated(LogicalPlan folded) {
    boolean ofDistinct = functions.stream().anyMatch(AggregateExpression::isDistinct);
    LogicalPlan groups = ofDistinct ? ofAll(folded) : folded;
    Map<String, Attribute> given = PlanParts.columnsOf(groups);
    Map<Expression, Expression> values = new HashMap<>();
    for (int i = 0; !ofDistinct && i < keys.size(); i++) {
      values.putIfAbsent(keys.get(i).canonicalized(), given.get(key(i)));
    }
    for (int i = 0; i < functions.size(); i++) {
      Expression value =
          functions.get(i).isDistinct()
              ? given.get(result(i))
              : value(functions.get(i).aggregateFunction(), given.get(sum(i)), given.get(number(i)));
      values.put(functions.get(i).canonicalized(), value);
    }
    List<NamedExpression> columns = new ArrayList<>();
    for (NamedExpression each : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      Expression over = ((Expression) each).transformDown(new Valued(values));
      columns.add(
          over instanceof Alias alias ? alias : PlanParts.named(over, each.name(), each.exprId()));
    }
    return new Project(PlanParts.sequence(columns), groups);
  }

  /** Returns the sums over all groups, whose keys are arguments of DISTINCT functions, and their results. */
  private LogicalPlan ofAll(LogicalPlan folded) {
    Map<String, Attribute> given = PlanParts.columnsOf(folded);
    List<NamedExpression> columns = new ArrayList<>();
    int key = 0;
    for (int i = 0; i < functions.size(); i++) {
      AggregateFunction function = functions.get(i).aggregateFunction();
      if (functions.get(i).isDistinct()) {
        Expression over = function.withNewChildren(PlanParts.sequence(List.of(given.get(key(key++)))));
        columns.add(
            named(
                new AggregateExpression(
                    (AggregateFunction) over,
                    Complete$.MODULE$,
                    true,
                    Option.empty(),
                    NamedExpression.newExprId()),
                result(i)));
        continue;
      }
      if (sums(function)) {
        columns.add(named(added(given.get(sum(i))), sum(i)));
      }
      columns.add(named(counted(given.get(number(i))), number(i)));
    }
    return new Aggregate(
        PlanParts.sequence(List.of()), PlanParts.sequence(columns), folded, Option.empty());
  }

  private static Expression value(AggregateFunction function, Attribute sum, Attribute number) {
    if (function instanceof Count) {
      return number;
    }
    if (function instanceof Average average) {
      Map<Expression, Expression> buffer = new HashMap<>();
      buffer.put(average.sum().canonicalized(), summed(sum, average.sum().dataType()));
      buffer.put(average.count().canonicalized(), number);
      return average.evaluateExpression().transformDown(new Valued(buffer));
    }
    // Without an argument that is not NULL, what is left of the sum may be 0.
    DataType type = function.dataType();
    return new If(new EqualTo(number, NONE), Literal.create(null, type), cast(sum, type));
  }

  private static boolean sums(AggregateFunction function) {
    return !(function instanceof Count);
  }

  private static Expression argument(AggregateFunction function) {
    return function.children().apply(0);
  }

  /** Returns the argument of a DISTINCT function, which ignores NULL, as NULL where it is filtered out. */
  private static Expression distinct(AggregateExpression each) {
    Expression argument = argument(each.aggregateFunction());
    return each.filter().isEmpty()
        ? argument
        : new If(each.filter().get(), argument, Literal.create(null, argument.dataType()));
  }

  /** Returns the type of the sum of an argument, or null if it would not be exact. */
  private static DataType sumType(AggregateFunction function) {
    DataType type = argument(function).dataType();
    if (type instanceof DecimalType decimal) {
      return new DecimalType(DecimalType.MAX_PRECISION(), decimal.scale());
    }
    return type instanceof IntegralType ? new DecimalType(DecimalType.MAX_PRECISION(), 0) : null;
  }

  /**
   * Returns the sum of an argument. Spark's own type of such a sum is exact for 10 billion rows and faster to
   * add up, but a few values of BIGINT may overflow it.
   */
  private static Expression total(AggregateFunction function, Option<Expression> filter) {
    Expression argument = argument(function);
    DataType type = sumType(function);
    boolean overflows = argument.dataType().equals(DataTypes.LongType);
    return cast(called(exactSum(overflows ? cast(argument, type) : argument), filter), type);
  }

  /** Returns a sum, but NULL if it is 0 because no value remains. */
  private static Expression withoutZero(Expression sum, Expression number) {
    DecimalType type = (DecimalType) sum.dataType();
    Literal zero = Literal.create(Decimal.apply(0L, type.precision(), type.scale()), type);
    return new If(
        new And(new EqualTo(number, NONE), new EqualTo(sum, zero)),
        Literal.create(null, type),
        sum);
  }

  private static Expression counted(Attribute column) {
    return new Coalesce(PlanParts.sequence(List.of(added(column), NONE)));
  }

  private static Expression added(Attribute column) {
    return called(exactSum(column), Option.empty());
  }

  private static Sum exactSum(Expression argument) {
    return new Sum(argument, new NumericEvalContext(EvalMode.ANSI(), true));
  }

  private static AggregateExpression called(AggregateFunction function, Option<Expression> filter) {
    return new AggregateExpression(
        function, Complete$.MODULE$, false, filter, NamedExpression.newExprId());
  }

  /**
   * Returns an exact sum in the type in which Spark adds up an average.
   *
   * <p>Spark adds integers as doubles, which are exact up to 2^53. A larger sum fails, because the query would
   * return another value.
   */
  private static Expression summed(Expression sum, DataType type) {
    return type.equals(DataTypes.DoubleType) ? cast(cast(sum, EXACT_IN_DOUBLES), type) : cast(sum, type);
  }

  private static Expression cast(Expression value, DataType type) {
    return value.dataType().equals(type)
        ? value
        : new Cast(value, type, Option.empty(), EvalMode.ANSI());
  }

  private static NamedExpression named(Expression value, String name) {
    return PlanParts.named(value, name, NamedExpression.newExprId());
  }

  private static String key(int number) {
    return "k" + number;
  }

  private static String sum(int number) {
    return "s" + number;
  }

  private static String result(int number) {
    return "r" + number;
  }

  private static String number(int number) {
    return "n" + number;
  }

  /** Replaces expressions by their values, the whole before its parts. */
  private static final class Valued extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1;
    private final transient Map<Expression, Expression> values;

    Valued(Map<Expression, Expression> values) {
      this.values = values;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return !expression.foldable() && values.containsKey(expression.canonicalized());
    }

    @Override
    public Expression apply(Expression expression) {
      return values.get(expression.canonicalized());
    }
  }
}
