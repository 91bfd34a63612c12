package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import freshtable.plans.ShortLists;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans as Spark's JSON with facts that it lacks.
 *
 * <ul>
 *   <li>Each operator: {@code deterministic}, of its own expressions.
 *   <li>A relation: the number of the {@code reading}; for others of catalogs, the name of the
 *       {@code relation} and its {@code version}.
 *   <li>An aggregate: {@code keyTypes}, the types of its grouping values, and {@code functions}, its different
 *       aggregate functions in the order of {@link Partials}. {@code same} is the place of the first aggregate
 *       whose partial sums are the same by Spark's comparison, for many its own place.
 *   <li>Expand: {@code projections}, which Spark omits sometimes.
 *   <li>Generate: its columns as {@code output}, since some of its child's may be omitted.
 *   <li>A subquery in an expression: the number of its tree as {@code subquery}, instead of its plan.
 * </ul>
 */
final class PlanFacts {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Map<ExprId, Integer> subqueries;
  private final Map<ExprId, Integer> readings;
  private final Map<LogicalPlan, String> places = new HashMap<>();

  PlanFacts(Map<ExprId, Integer> subqueries, Map<ExprId, Integer> readings) {
    this.subqueries = subqueries;
    this.readings = readings;
  }

  /**
   * Returns the number of the reading that a relation is, or null.
   *
   * <p>A LocalRelation may have the columns of a reading, because Spark puts one without rows in the place of
   * a relation of which no row remains.
   */
  static Integer readingOf(LogicalPlan relation, Map<ExprId, Integer> readings) {
    Seq<Attribute> output = relation.output();
    return relation instanceof LocalRelation || output.isEmpty()
        ? null
        : readings.get(output.apply(0).exprId());
  }

  ArrayNode of(List<LogicalPlan> trees) throws JsonProcessingException {
    ArrayNode all = JSON.createArrayNode();
    for (LogicalPlan tree : trees) {
      LogicalPlan plan = ShortLists.of(tree);
      JsonNode nodes = numbered(JSON.readTree(plan.toJSON()));
      add(plan, nodes, 0, Place.root(all.size()));
      all.add(nodes);
    }
    return all;
  }

  /** Adds facts to the nodes of an operator and those below it; returns the position of the next node. */
  private int add(LogicalPlan operator, JsonNode nodes, int position, Place place)
      throws JsonProcessingException {
    facts(operator, (ObjectNode) nodes.get(position), place);
    List<LogicalPlan> children = CollectionConverters.asJava(operator.children());
    int next = position + 1;
    for (int i = 0; i < children.size(); i++) {
      next = add(children.get(i), nodes, next, place.child(i));
    }
    return next;
  }

  private void facts(LogicalPlan operator, ObjectNode node, Place place) throws JsonProcessingException {
    List<Expression> expressions = CollectionConverters.asJava(operator.expressions());
    node.put("deterministic", expressions.stream().allMatch(Expression::deterministic));
    if (operator instanceof Aggregate aggregate) {
      ArrayNode types = node.putArray("keyTypes");
      CollectionConverters.asJava(aggregate.groupingExpressions())
          .forEach(each -> types.add(each.dataType().catalogString()));
      ArrayNode functions = node.putArray("functions");
      Partials.functionsOf(aggregate).forEach(each -> function(each, functions.addObject()));
      String first = places.putIfAbsent(Partials.canonical(aggregate), place.toString());
      node.put("same", first == null ? place.toString() : first);
    } else if (operator instanceof Expand expand) {
      ArrayNode projections = node.putArray("projections");
      for (Seq<Expression> each : CollectionConverters.asJava(expand.projections())) {
        ArrayNode projection = projections.addArray();
        for (Expression value : CollectionConverters.asJava(each)) {
          projection.add(numbered(JSON.readTree(value.toJSON())));
        }
      }
    } else if (operator instanceof Generate) {
      ArrayNode output = node.putArray("output");
      for (Attribute each : CollectionConverters.asJava(operator.output())) {
        output.add(JSON.readTree(each.toJSON()));
      }
    } else if (operator.children().isEmpty()) {
      relation(operator, node);
    }
  }

  private void relation(LogicalPlan leaf, ObjectNode node) {
    Integer reading = readingOf(leaf, readings);
    if (reading != null) {
      node.put("reading", reading);
    } else if (leaf instanceof DataSourceV2Relation relation) {
      node.put("relation", relation.name());
      if (relation.timeTravelSpec().isDefined()) {
        node.put("version", relation.timeTravelSpec().get().toString());
      }
    }
  }

  private static void function(AggregateExpression each, ObjectNode facts) {
    AggregateFunction function = each.aggregateFunction();
    List<Expression> arguments = CollectionConverters.asJava(function.children());
    facts.put("kind", function.getClass().getSimpleName());
    facts.put("inputType", arguments.isEmpty() ? null : arguments.get(0).dataType().catalogString());
    facts.put("resultType", function.dataType().catalogString());
    Object mode =
        function instanceof Sum sum
            ? sum.evalContext().evalMode()
            : function instanceof Average average ? average.evalMode() : null;
    facts.put("evalMode", mode == null ? null : mode.toString());
    facts.put("distinct", each.isDistinct());
    facts.put("filtered", each.filter().isDefined());
  }

  /** Replaces the plans of subqueries in the JSON of expressions by the numbers of their trees. */
  private JsonNode numbered(JsonNode json) {
    if (json instanceof ObjectNode node && node.path("plan").isArray() && node.has("exprId")) {
      long id = node.path("exprId").path("id").asLong();
      subqueries.forEach((each, number) -> {
        if (each.id() == id) {
          node.put("subquery", number);
          node.remove("plan");
        }
      });
    }
    json.forEach(this::numbered);
    return json;
  }
}
