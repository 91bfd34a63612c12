package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A query that can be computed in stages: its aggregates as partial sums, and the rest of the query over them.
 *
 * <p>The query is cut at places. A place is a JSON array of a tree and a path: tree 0 is the plan of the
 * query, and the others are those of the scalar subqueries in its expressions; the path has the positions of
 * children from the root of the tree. The relations that the query reads are its readings, numbered by the
 * aliases in its text. Wherever they are read, given rows take their place, with columns of the same names.
 */
public final class StagedQuery {
  private static final ObjectMapper JSON = new ObjectMapper();
  /** The prefix of the alias of a reading, OCCURRENCE_PREFIX of mt_core.incremental.plan. */
  private static final String PREFIX = "_source_";
  private static final String NO_COLUMN = "c";
  private static final Pattern READING = Pattern.compile(PREFIX + "[0-9]+");

  private final SparkSession session;
  private final List<LogicalPlan> trees;
  private final Map<ExprId, Integer> subqueries;
  private final Map<ExprId, Integer> readings;
  private final List<String> columns;

  private StagedQuery(SparkSession session, LogicalPlan normalForm, LogicalPlan reduced) {
    this.session = session;
    this.columns = new ArrayList<>();
    CollectionConverters.asJava(normalForm.output()).forEach(each -> columns.add(each.name()));
    this.readings = new HashMap<>();
    addReadings(normalForm, readings);
    Subqueries.all(normalForm).values().forEach(each -> addReadings(each, readings));
    this.trees = new ArrayList<>(List.of(reduced));
    this.subqueries = new HashMap<>();
    Subqueries.all(reduced).forEach((id, plan) -> {
      subqueries.put(id, trees.size());
      trees.add(plan);
    });
  }

  /**
   * Returns a query, given in normal form with numbered aliases of its readings.
   */
  public static StagedQuery of(SparkSession session, LogicalPlan normalForm) {
    return new StagedQuery(session, normalForm, NormalForm.reduced(normalForm));
  }

  /** Returns the trees as a JSON array, with the facts that {@link PlanFacts} adds to Spark's JSON. */
  public String json() throws JsonProcessingException {
    return JSON.writeValueAsString(new PlanFacts(subqueries, readings).of(trees));
  }

  /**
   * Returns the rows of a reading that satisfy conditions of the query.
   *
   * @param places a JSON array of conditions, each an array of the place of its operator, a filter or a join,
   *     and its position among the conditions that AND combines there
   * @param rows rows with the columns of the reading that the conditions read
   */
  public Dataset<Row> filtered(int reading, String places, Dataset<Row> rows) throws JsonProcessingException {
    LogicalPlan given = planOf(rows);
    Expression condition = null;
    for (JsonNode place : JSON.readTree(places)) {
      LogicalPlan operator = operator(Place.of(place.get(0)));
      Expression own =
          PlanParts.overRows(
              PlanParts.condition(operator, place.get(1).asInt()),
              operator,
              each -> isReading(each, reading),
              given);
      if (own.deterministic()) {
        condition = condition == null ? own : new And(condition, own);
      }
    }
    return condition == null
        ? rows
        : Dataset.ofRows(((Dataset<?>) rows).sparkSession(), new Filter(condition, given));
  }

  /** Returns the columns of the partial sums of an aggregate. */
  public StructType schema(String place) throws JsonProcessingException {
    return Partials.of(aggregate(place)).schema();
  }

  /**
   * Returns the columns of the rows of an operator: {@code c0}, {@code c1} and so on. An operator without
   * columns has {@code c}, because rows of no columns cannot be passed on.
   */
  public StructType columns(String place) throws JsonProcessingException {
    StructType columns = new StructType();
    for (Attribute each : CollectionConverters.asJava(operator(Place.of(place)).output())) {
      columns = columns.add(column(columns.size()), each.dataType().asNullable());
    }
    return columns.isEmpty() ? columns.add(NO_COLUMN, DataTypes.BooleanType) : columns;
  }

  /**
   * Returns the rows of an operator over given rows of the readings below it.
   *
   * @param given rows of readings
   * @param operators rows of operators below it, by place, with those columns of {@link #columns} that are
   *     read. What is below these operators is not read. The row of the root of another tree is the value of
   *     the scalar subquery.
   */
  public Dataset<Row> rows(
      String place, Map<Integer, Dataset<Row>> given, Map<String, Dataset<Row>> operators)
      throws JsonProcessingException {
    List<Attribute> output = CollectionConverters.asJava(operator(Place.of(place)).output());
    LogicalPlan rows = new Replacing(given, outputs(operators)).in(Place.of(place));
    List<NamedExpression> named = new ArrayList<>();
    for (int i = 0; i < output.size(); i++) {
      if (rows.outputSet().contains(output.get(i))) {
        named.add(PlanParts.named(output.get(i), column(i), NamedExpression.newExprId()));
      }
    }
    if (output.isEmpty()) {
      named.add(PlanParts.named(Literal.TrueLiteral(), NO_COLUMN, NamedExpression.newExprId()));
    }
    return dataset(sessionOf(given, operators), new Project(PlanParts.sequence(named), rows));
  }

  /** Returns the partial sums of an aggregate over given rows, as {@link #rows} gets them. */
  public Dataset<Row> groups(
      String place, Map<Integer, Dataset<Row>> given, Map<String, Dataset<Row>> operators)
      throws JsonProcessingException {
    Replacing replacing = new Replacing(given, outputs(operators));
    LogicalPlan rows = replacing.in(Place.of(place).child(0));
    LogicalPlan groups = replacing.withValues(Partials.of(aggregate(place)).groups(rows));
    return dataset(sessionOf(given, operators), groups);
  }

  /** Returns partial sums of an aggregate with one row for each of its groups. */
  public Dataset<Row> folded(String place, Dataset<Row> partials) throws JsonProcessingException {
    return dataset(((Dataset<?>) partials).sparkSession(), Partials.of(aggregate(place)).folded(planOf(partials)));
  }

  /**
   * Returns what a tree returns: the query, or a scalar subquery in it as {@link #columns} of its root.
   *
   * @param states partial sums for aggregates, by place
   * @param leaves rows of the readings that are not only below these
   * @param operators rows of operators, as those of {@link #rows}
   */
  public Dataset<Row> rest(
      int tree,
      Map<String, Dataset<Row>> states,
      Map<Integer, Dataset<Row>> leaves,
      Map<String, Dataset<Row>> operators)
      throws JsonProcessingException {
    Map<Place, LogicalPlan> evaluated = outputs(operators);
    for (Map.Entry<String, Dataset<Row>> state : states.entrySet()) {
      Partials partials = Partials.of(aggregate(state.getKey()));
      evaluated.put(
          Place.of(state.getKey()),
          partials.evaluated(partials.folded(PlanParts.fresh(planOf(state.getValue())))));
    }
    LogicalPlan rest = new Replacing(leaves, evaluated).in(Place.root(tree));
    List<Attribute> output = CollectionConverters.asJava(rest.output());
    List<NamedExpression> named = new ArrayList<>();
    for (int i = 0; i < output.size(); i++) {
      String name = tree == 0 ? columns.get(i) : column(i);
      named.add(PlanParts.named(output.get(i), name, NamedExpression.newExprId()));
    }
    return dataset(
        sessionOf(states, leaves), new Project(PlanParts.sequence(named), rest));
  }

  private boolean isReading(LogicalPlan operator, int number) {
    return operator.children().isEmpty()
        && Integer.valueOf(number).equals(PlanFacts.readingOf(operator, readings));
  }

  /** Returns the session of given rows. */
  private SparkSession sessionOf(Map<?, Dataset<Row>> some, Map<?, Dataset<Row>> others) {
    return Stream.concat(some.values().stream(), others.values().stream())
        .findFirst().map(rows -> ((Dataset<?>) rows).sparkSession()).orElse(session);
  }

  private Aggregate aggregate(String place) throws JsonProcessingException {
    return (Aggregate) operator(Place.of(place));
  }

  private LogicalPlan operator(Place place) {
    return place.in(trees);
  }

  /** Returns given rows of operators as plans with the operators' columns. */
  private Map<Place, LogicalPlan> outputs(Map<String, Dataset<Row>> operators)
      throws JsonProcessingException {
    Map<Place, LogicalPlan> outputs = new HashMap<>();
    for (Map.Entry<String, Dataset<Row>> each : operators.entrySet()) {
      Place place = Place.of(each.getKey());
      List<Attribute> output = CollectionConverters.asJava(operator(place).output());
      List<String> names = IntStream.range(0, output.size()).mapToObj(StagedQuery::column).toList();
      outputs.put(place, renamed(each.getValue(), output, names));
    }
    return outputs;
  }

  private static String column(int position) {
    return "c" + position;
  }

  /** Returns given rows with the ids and types of the columns that have the names. */
  private static LogicalPlan renamed(Dataset<Row> rows, List<Attribute> columns, List<String> names) {
    LogicalPlan given = PlanParts.fresh(planOf(rows));
    Map<String, Attribute> own = PlanParts.columnsOf(given);
    Map<ExprId, NamedExpression> renamed = new LinkedHashMap<>();
    for (int i = 0; i < names.size(); i++) {
      Attribute column = columns.get(i);
      Attribute value = own.get(names.get(i));
      if (value != null) {
        renamed.putIfAbsent(
            column.exprId(),
            PlanParts.named(typed(value, column.dataType()), column.name(), column.exprId()));
      }
    }
    return new Project(PlanParts.sequence(List.copyOf(renamed.values())), given);
  }

  private static LogicalPlan planOf(Dataset<Row> rows) {
    return rows.queryExecution().analyzed();
  }

  private static Dataset<Row> dataset(SparkSession session, LogicalPlan plan) {
    PlanParts.check(plan);
    plan.setAnalyzed();
    return Dataset.ofRows(session, plan);
  }

  private static void addReadings(LogicalPlan plan, Map<ExprId, Integer> found) {
    if (plan instanceof SubqueryAlias named && READING.matcher(named.identifier().name()).matches()) {
      Integer number = Integer.valueOf(named.identifier().name().substring(PREFIX.length()));
      CollectionConverters.asJava(plan.collectLeaves())
          .forEach(leaf -> CollectionConverters.asJava(leaf.output())
              .forEach(column -> found.put(column.exprId(), number)));
      return;
    }
    CollectionConverters.asJava(plan.children()).forEach(each -> addReadings(each, found));
  }

  /** Puts given rows in the place of readings and of operators. */
  private final class Replacing {
    private final Map<Integer, Dataset<Row>> leaves;
    private final Map<Place, LogicalPlan> operators;

    Replacing(Map<Integer, Dataset<Row>> leaves, Map<Place, LogicalPlan> operators) {
      this.leaves = leaves;
      this.operators = operators;
    }

    /** Returns the operator at a place over the given rows. */
    LogicalPlan in(Place place) {
      LogicalPlan given = operators.get(place);
      return withValues(given == null ? below(operator(place), place) : given);
    }

    /** Returns an operator with the subqueries in its expressions over the given rows. */
    LogicalPlan withValues(LogicalPlan operator) {
      LogicalPlan joined = GivenValues.in(operator, each -> operators.get(treeOf(each)));
      return Subqueries.replacedIn(joined, each -> in(treeOf(each)));
    }

    private Place treeOf(SubqueryExpression subquery) {
      return Place.root(subqueries.get(subquery.exprId()));
    }

    private LogicalPlan below(LogicalPlan operator, Place place) {
      if (operator.children().isEmpty()) {
        Integer number = PlanFacts.readingOf(operator, readings);
        return number == null ? operator : leaf(operator, number);
      }
      List<LogicalPlan> children = new ArrayList<>();
      for (int i = 0; i < operator.children().size(); i++) {
        children.add(in(place.child(i)));
      }
      return operator.withNewChildren(PlanParts.sequence(children));
    }

    private LogicalPlan leaf(LogicalPlan relation, int number) {
      Dataset<Row> rows = leaves.get(number);
      if (rows == null) {
        throw new IllegalArgumentException("Rows of reading " + number + " are needed.");
      }
      List<Attribute> columns = CollectionConverters.asJava(relation.output());
      return renamed(rows, columns, columns.stream().map(Attribute::name).toList());
    }
  }

  private static Expression typed(Expression value, DataType type) {
    return value.dataType().asNullable().equals(type.asNullable())
        ? value
        : new Cast(value, type, Option.empty(), EvalMode.ANSI());
  }
}
