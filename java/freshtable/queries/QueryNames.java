package freshtable.queries;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The names of relations and functions in a parsed query, as JSON.
 *
 * <p>A scope contains the lower-case names of the CTEs that are visible in a part of the query.
 */
public final class QueryNames {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final ObjectNode names = JSON.createObjectNode();
  private final ArrayNode relations = names.putArray("relations");
  private final ArrayNode functions = names.putArray("functions");
  private int clauses;
  private boolean identifiers;

  /** Thrown for a statement that is not a batch query: a command, or a query that reads a stream. */
  private static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final transient ObjectNode reason;

    Refused(ObjectNode reason) {
      this.reason = reason;
    }
  }

  private QueryNames() {}

  /** Returns the result of {@link #of} for the text of a query. */
  public static String ofText(SparkSession session, String text) throws Exception {
    return of(session.sessionState().sqlParser().parsePlan(text));
  }

  /**
   * Returns {@code relations} with their positions, {@code functions}, the number of WITH clauses as
   * {@code with}, and whether IDENTIFIER() hides names as {@code identifiers}.
   *
   * <p>For a statement that is not a batch query, returns {@code command} as true, or the name of a relation
   * that is read as a {@code stream}.
   */
  public static String of(LogicalPlan plan) {
    QueryNames query = new QueryNames();
    try {
      query.walk(plan, Set.of(), false);
    } catch (Refused refused) {
      return refused.reason.toString();
    }
    return query.names.put("with", query.clauses).put("identifiers", query.identifiers).toString();
  }

  private void walk(LogicalPlan plan, Set<String> scope, boolean aliased) {
    if (plan instanceof Command || plan.getClass().getSimpleName().endsWith("Statement")) {
      throw new Refused(JSON.createObjectNode().put("command", true));
    }
    if (plan instanceof UnresolvedWith with) {
      with(with, scope);
    } else if (plan instanceof UnresolvedRelation relation) {
      relation(relation, scope, aliased, null);
    } else if (plan instanceof RelationTimeTravel travel) {
      String version = travel.version().isDefined() ? travel.version().get() : "timestamp";
      relation((UnresolvedRelation) travel.relation(), Set.of(), aliased, version);
    } else {
      identifiers |= plan instanceof PlanWithUnresolvedIdentifier;
      if (plan instanceof UnresolvedTableValuedFunction function) {
        functions.add(array(function.name()));
      }
      boolean isAlias = plan instanceof SubqueryAlias || plan instanceof UnresolvedSubqueryColumnAliases;
      for (LogicalPlan child : list(plan.children())) {
        walk(child, scope, isAlias);
      }
      for (Expression expression : list(plan.expressions())) {
        walk(expression, scope);
      }
    }
  }

  private void with(UnresolvedWith with, Set<String> scope) {
    clauses++;
    Set<String> within = new HashSet<>(scope);
    list(with.cteRelations())
        .forEach(
            entry -> {
              Set<String> named = new HashSet<>(within);
              named.add(entry._1().toLowerCase(Locale.ROOT));
              walk(entry._2(), with.allowRecursion() ? named : Set.copyOf(within), false);
              within.addAll(named);
            });
    walk(with.child(), within, false);
  }

  private void relation(UnresolvedRelation relation, Set<String> scope, boolean aliased, String travel) {
    List<String> parts = list(relation.multipartIdentifier());
    if (relation.isStreaming()) {
      ObjectNode reason = JSON.createObjectNode();
      reason.set("stream", array(relation.multipartIdentifier()));
      throw new Refused(reason);
    }
    Origin origin = relation.origin();
    ObjectNode named = relations.addObject();
    named.set("parts", array(relation.multipartIdentifier()));
    named
        .put("start", (Integer) origin.startIndex().get())
        .put("stop", (Integer) origin.stopIndex().get() + 1)
        .put("cte", parts.size() == 1 && scope.contains(parts.get(0).toLowerCase(Locale.ROOT)))
        .put("aliased", aliased)
        .put("travel", travel);
  }

  private void walk(Expression expression, Set<String> scope) {
    identifiers |= expression instanceof ExpressionWithUnresolvedIdentifier;
    if (expression instanceof UnresolvedFunction function) {
      functions.add(array(function.nameParts()));
    }
    if (expression instanceof SubqueryExpression subquery) {
      walk(subquery.plan(), scope, false);
    }
    for (Expression child : list(expression.children())) {
      walk(child, scope);
    }
  }

  private static ArrayNode array(Seq<String> parts) {
    ArrayNode array = JSON.createArrayNode();
    list(parts).forEach(array::add);
    return array;
  }

  private static <T> List<T> list(Seq<T> items) {
    return CollectionConverters.asJava(items);
  }
}
