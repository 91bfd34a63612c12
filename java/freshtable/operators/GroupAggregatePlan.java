package freshtable.operators;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RowOrdering$;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.optimizer.EliminateDistinct$;
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple4;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The plan of a GROUP BY. A projection below the operator computes the arguments of the functions, and one
 * above it computes the SELECT items.
 *
 * <p>Spark plans both projections and evaluates expressions such as the batch time in them, so that the
 * operator only handles columns. Functions are grouped into feeds by the rows that they receive: all rows, or
 * the rows of a map for DISTINCT and for functions without an inverse. If the input has retractions, COUNT,
 * SUM and AVG are rewritten into signed sums, which need no map. If there is a single feed without a map, and
 * no event time, tasks combine their rows before the shuffle (CombinedRows).
 *
 * <p>Keys are normalized, so that values that are equal in SQL have equal bytes, and are stored in a form
 * that Spark's state schema supports.
 */
public final class GroupAggregatePlan {
  private final List<Alias> computed = new ArrayList<>();
  private final List<AggregateExpression> functions = new ArrayList<>();
  private final List<NamedExpression> results = new ArrayList<>();
  private final Map<List<Object>, Draft> maps = new LinkedHashMap<>();
  private final Attribute adds;

  private record Draft(
      List<Attribute> columns, Attribute filter,
      AggregateFeed.Counting counting, List<AggregateExpression> functions,
      List<NamedExpression> results) {}

  private GroupAggregatePlan(Attribute kind) {
    adds = kind == null ? null : computed(Changelogs.isAdded(kind), AggregateFeed.ADDS);
    if (adds != null) {
      functions.add(SignedAggregate.rows(adds));
    }
  }

  /**
   * Returns the plan of an Aggregate. Its last column is the row kind, unless the result is append-only.
   *
   * @param kind the row kind column of the input, or null if the input is append-only
   */
  public static LogicalPlan of(Aggregate aggregate, Attribute kind, KeptState kept) {
    Tuple4<Seq<NamedExpression>, Seq<AggregateExpression>, Seq<NamedExpression>, LogicalPlan> split =
        PhysicalAggregation.unapply(executable(aggregate)).get();
    List<NamedExpression> grouping = CollectionConverters.asJava(split._1());
    GroupAggregatePlan plan = new GroupAggregatePlan(kind);
    List<Attribute> output = new ArrayList<>(), keys = new ArrayList<>();
    for (NamedExpression each : grouping) {
      Expression value = each instanceof Alias alias ? alias.child() : (Expression) each;
      keys.add(plan.computed(KeyedRows.normalized(value), "key" + keys.size()));
      output.add(each.toAttribute());
    }
    if (keys.isEmpty()) {
      keys.add(plan.computed(Literal$.MODULE$.apply(true), "key"));
    }
    List<AggregateExpression> functions = CollectionConverters.asJava(split._2());
    functions.forEach(plan::add);
    if (kept.policy().inEventTime()) {
      plan.addEventTime(CollectionConverters.asJava(split._4().output()));
    }
    List<NamedExpression> above = new ArrayList<>(CollectionConverters.asJava(split._3()));
    boolean updates = kind != null || !functions.isEmpty();
    LogicalPlan operator = plan.over(split._4(), keys, output, updates, kept);
    if (updates) {
      above.add((NamedExpression) CollectionConverters.asJava(operator.output())
          .get(operator.output().size() - 1));
    }
    return new Project(KeyedRows.seq(above), operator);
  }

  private LogicalPlan over(
      LogicalPlan child, List<Attribute> keys, List<Attribute> output, boolean updates, KeptState kept) {
    LogicalPlan rows = new Project(KeyedRows.<NamedExpression>seq(computed), child);
    List<Attribute> inputs = CollectionConverters.asJava(rows.output());
    List<AggregateFeed> feeds = feeds(inputs);
    boolean keyed = !output.isEmpty(), inEventTime = kept.policy().inEventTime();
    // Combined rows have no event time.
    boolean combined = !feeds.get(0).hasMap() && feeds.size() == 1 && !inEventTime;
    for (AggregateFeed feed : feeds) {
      feed.results().forEach(each -> output.add(each.toAttribute()));
    }
    if (updates) {
      output.add(Changelogs.kind());
    }
    int added = adds == null ? -1 : 0;
    int eventTime = inEventTime ? EntryTimes.column(inputs) : -1;
    GroupAggregate.Form form = new GroupAggregate.Form(combined, added, eventTime, keyed, updates);
    LogicalPlan given = combined ? combined(rows, feeds.get(0), keys) : rows;
    // Combined rows end with their key.
    List<Attribute> columns = CollectionConverters.asJava(given.output());
    List<Attribute> by = combined ? columns.subList(columns.size() - keys.size(), columns.size()) : keys;
    List<Attribute> stored = new ArrayList<>(output);
    List<NamedExpression> whole = new ArrayList<>(output);
    for (int position = 0; keyed && position < keys.size(); position++) {
      Attribute key = output.get(position);
      StateType type = StateType.ofKey(key.dataType());
      stored.set(position, type.storedKey(key));
      whole.set(position, type.readKey(stored.get(position), key));
    }
    LogicalPlan operator =
        KeyedRows.transformedUnconverted(
            given, List.<Expression>copyOf(by), columns,
            stored, new GroupAggregate(feeds, inputs, form, kept));
    return stored.equals(output) ? operator : new Project(KeyedRows.seq(whole), operator);
  }

  private void addEventTime(List<Attribute> columns) {
    int position = EntryTimes.column(columns);
    if (position >= 0) {
      computed(columns.get(position), "eventTime");
    }
  }

  private List<AggregateFeed> feeds(List<Attribute> inputs) {
    if (functions.isEmpty() && maps.isEmpty()) {
      functions.add(function(new Count(KeyedRows.<Expression>seq(List.of(Literal$.MODULE$.apply(1)))), null));
    }
    List<AggregateFeed> feeds = new ArrayList<>();
    if (!functions.isEmpty()) {
      feeds.add(new AggregateFeed(inputs, functions, results, List.of(), null, AggregateFeed.Counting.NONE));
    }
    for (Draft map : maps.values()) {
      List<Attribute> seen = new ArrayList<>(map.columns());
      if (adds != null) {
        seen.add(adds);
      }
      feeds.add(new AggregateFeed(seen, map.functions(),
          map.results(), map.columns(), map.filter(), map.counting()));
    }
    return feeds;
  }

  private static LogicalPlan combined(LogicalPlan rows, AggregateFeed feed, List<Attribute> keys) {
    List<Attribute> inputs = CollectionConverters.asJava(rows.output());
    CreateNamedStruct row = KeyedRows.struct(inputs);
    LogicalPlan packed =
        new Project(KeyedRows.<NamedExpression>seq(List.of(KeyedRows.alias(row, "row"))), rows);
    List<Attribute> output = new ArrayList<>();
    for (Attribute each : AggregateCode.stored(feed.functions())) {
      output.add(column("buffer" + output.size(), each.dataType(), true));
    }
    for (Attribute key : keys) {
      output.add(column(key.name(), key.dataType(), key.nullable()));
    }
    StructType type = KeyedRows.struct(output).dataType();
    Attribute given = KeyedRows.attribute("row", type);
    LogicalPlan combined = new MapPartitions(new CombinedRows(feed, inputs, keys), given, packed);
    return new Project(KeyedRows.seq(KeyedRows.fields(given, output)), combined);
  }

  private void add(AggregateExpression each) {
    boolean once = EliminateDistinct$.MODULE$.isDuplicateAgnostic(each.aggregateFunction());
    boolean distinct = each.isDistinct() && !once;
    AggregateFunction function = (AggregateFunction) each.aggregateFunction()
        .mapChildren(Mapped.by(child -> below(child, distinct)));
    Attribute filter = each.filter().isEmpty()
        ? null : computed(each.filter().get(), "filter" + computed.size());
    SignedAggregate signed = adds == null
        ? null : SignedAggregate.of(function(function, distinct ? null : filter), adds);
    boolean again = adds != null && signed == null;
    if (!distinct && !again) {
      put(functions, results, function(function, filter), signed, each);
      return;
    }
    AggregateFeed.Counting counting =
        !again
            ? AggregateFeed.Counting.FIRST_AND_LAST
            : distinct || once ? AggregateFeed.Counting.DISTINCT_AGAIN : AggregateFeed.Counting.ALL_AGAIN;
    Draft draft = map(function, filter, counting);
    put(draft.functions(), draft.results(), function(function, null), signed, each);
  }

  private static void put(
      List<AggregateExpression> functions, List<NamedExpression> results,
      AggregateExpression plain, SignedAggregate signed,
      AggregateExpression of) {
    functions.addAll(signed == null ? List.of(plain) : signed.functions());
    Expression result = signed == null ? plain.resultAttribute() : signed.result();
    Attribute name = of.resultAttribute();
    results.add(
        new Alias(result, name.name(), name.exprId(),
            name.qualifier(), Option.empty(), KeyedRows.<String>seq(List.of())));
  }

  private Draft map(AggregateFunction function, Attribute filter, AggregateFeed.Counting counting) {
    List<Attribute> columns = new ArrayList<>();
    for (Alias each : computed) {
      Attribute column = each.toAttribute();
      if (function.references().contains(column)) {
        columns.add(column);
      }
    }
    if (columns.isEmpty()) {
      columns.add(computed(Literal$.MODULE$.apply(true), "one"));
    }
    List<Object> key = new ArrayList<>(columns.stream().map(Attribute::exprId).toList());
    key.add(filter == null ? "" : filter.exprId());
    key.add(counting);
    return maps.computeIfAbsent(key,
        new_ -> new Draft(columns, filter, counting, new ArrayList<>(), new ArrayList<>()));
  }

  /**
   * Returns the form of an argument in the operator: a column, or the argument itself if it is always
   * constant.
   */
  private Expression below(Expression argument, boolean distinct) {
    if (argument instanceof SortOrder) {
      return argument.mapChildren(Mapped.by(child -> below(child, distinct)));
    }
    if (argument.foldable() && !argument.containsPattern(TreePattern.CURRENT_LIKE())) {
      return argument;
    }
    return computed(distinct ? KeyedRows.normalized(argument) : argument, "argument" + computed.size());
  }

  /**
   * Returns whether values of a {@code type} can be keys. Their type must have an order, or be a map type of
   * such values.
   */
  public static boolean isKey(DataType type) {
    if (type instanceof MapType map) {
      return isKey(map.keyType()) && isKey(map.valueType());
    }
    if (type instanceof ArrayType array) {
      return isKey(array.elementType());
    }
    if (type instanceof StructType struct) {
      return Arrays.stream(struct.fields()).allMatch(field -> isKey(field.dataType()));
    }
    return RowOrdering$.MODULE$.isOrderable(type);
  }

  private Attribute computed(Expression value, String name) {
    for (Alias each : computed) {
      if (value.deterministic() && each.child().semanticEquals(value)) {
        return each.toAttribute();
      }
    }
    Alias alias = KeyedRows.alias(value, name);
    computed.add(alias);
    return alias.toAttribute();
  }

  private static AggregateExpression function(AggregateFunction function, Attribute filter) {
    return new AggregateExpression(
        function, Partial$.MODULE$, false, Option.<Expression>apply(filter), NamedExpression.newExprId());
  }

  /** Returns the functions that the operator evaluates for an Aggregate. */
  public static List<AggregateExpression> functions(Aggregate aggregate) {
    return CollectionConverters.asJava(PhysicalAggregation.unapply(executable(aggregate)).get()._2());
  }

  /** Returns the Aggregate with only functions that can be evaluated. */
  private static Aggregate executable(Aggregate aggregate) {
    List<Expression> grouping = new ArrayList<>();
    CollectionConverters.asJava(aggregate.groupingExpressions())
        .forEach(each -> grouping.add(executable(each)));
    List<NamedExpression> selected = new ArrayList<>();
    CollectionConverters.asJava(aggregate.aggregateExpressions())
        .forEach(each -> selected.add((NamedExpression) executable((Expression) each)));
    return new Aggregate(KeyedRows.seq(grouping),
        KeyedRows.seq(selected), aggregate.child(), aggregate.hint());
  }

  private static Expression executable(Expression expression) {
    if (expression instanceof RuntimeReplaceable replaceable) {
      return executable(replaceable.replacement());
    }
    return expression.mapChildren(Mapped.by(GroupAggregatePlan::executable));
  }

  private static Attribute column(String name, DataType type, boolean nullable) {
    return new AttributeReference(
        name, type, nullable, Metadata.empty(), NamedExpression.newExprId(),
        KeyedRows.<String>seq(List.of()));
  }
}
