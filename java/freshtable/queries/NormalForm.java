package freshtable.queries;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases;
import org.apache.spark.sql.catalyst.analysis.EliminateView;
import org.apache.spark.sql.catalyst.analysis.UpdateAttributeNullability;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.optimizer.BooleanSimplification;
import org.apache.spark.sql.catalyst.optimizer.CollapseProject;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning;
import org.apache.spark.sql.catalyst.optimizer.CombineFilters;
import org.apache.spark.sql.catalyst.optimizer.CombineUnions;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding;
import org.apache.spark.sql.catalyst.optimizer.EliminateLimits;
import org.apache.spark.sql.catalyst.optimizer.EliminateOuterJoin;
import org.apache.spark.sql.catalyst.optimizer.EliminateResolvedHint;
import org.apache.spark.sql.catalyst.optimizer.EliminateSorts;
import org.apache.spark.sql.catalyst.optimizer.FoldablePropagation;
import org.apache.spark.sql.catalyst.optimizer.InferFiltersFromConstraints;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.optimizer.NullPropagation;
import org.apache.spark.sql.catalyst.optimizer.OptimizeIn;
import org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation;
import org.apache.spark.sql.catalyst.optimizer.PruneFilters;
import org.apache.spark.sql.catalyst.optimizer.PullOutGroupingExpressions;
import org.apache.spark.sql.catalyst.optimizer.PullupCorrelatedPredicates;
import org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughJoin;
import org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin;
import org.apache.spark.sql.catalyst.optimizer.RemoveNoopOperators;
import org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases;
import org.apache.spark.sql.catalyst.optimizer.ReorderJoin;
import org.apache.spark.sql.catalyst.optimizer.ReplaceDistinctWithAggregate;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExceptWithAntiJoin;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions;
import org.apache.spark.sql.catalyst.optimizer.ReplaceIntersectWithSemiJoin;
import org.apache.spark.sql.catalyst.optimizer.RewriteCorrelatedScalarSubquery;
import org.apache.spark.sql.catalyst.optimizer.RewriteExceptAll;
import org.apache.spark.sql.catalyst.optimizer.RewriteIntersectAll;
import org.apache.spark.sql.catalyst.optimizer.RewriteLateralSubquery;
import org.apache.spark.sql.catalyst.optimizer.RewriteNonCorrelatedExists;
import org.apache.spark.sql.catalyst.optimizer.RewritePredicateSubquery;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression;
import org.apache.spark.sql.catalyst.optimizer.SimplifyBinaryComparison;
import org.apache.spark.sql.catalyst.optimizer.SimplifyCasts;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import scala.PartialFunction;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Rewrites analysed plans by Spark's own rules, so that plans of queries that mean the same look the same.
 *
 * <p>{@link #of} replaces what the rules of maintenance do not know: WITH, subqueries and operations on sets
 * become joins and aggregates. {@link #reduced} also moves conditions down to the relations that they concern,
 * and drops what the query does not need.
 */
public final class NormalForm {
  private static final int MOST_ROUNDS = 100;

  private static final List<UnaryOperator<LogicalPlan>> OF_SETS =
      List.of(
          RewriteExceptAll::apply,
          RewriteIntersectAll::apply,
          ReplaceIntersectWithSemiJoin::apply,
          ReplaceExceptWithAntiJoin::apply,
          ReplaceDistinctWithAggregate::apply);

  private static final List<UnaryOperator<LogicalPlan>> BY_JOINS =
      List.of(
          RewritePredicateSubquery::apply,
          RewriteCorrelatedScalarSubquery::apply,
          RewriteLateralSubquery::apply);

  private static final List<UnaryOperator<LogicalPlan>> OF_NAMES =
      List.of(
          EliminateResolvedHint::apply,
          EliminateSubqueryAliases::apply,
          EliminateView::apply,
          ReplaceExpressions::apply,
          RewriteWithExpression::apply,
          // A rule that rewrites a grouping expression rewrites it in one place.
          PullOutGroupingExpressions::apply);

  private static final List<UnaryOperator<LogicalPlan>> REDUCING =
      List.of(
          NormalForm::predicatesPushed,
          ReorderJoin::apply,
          EliminateOuterJoin::apply,
          ColumnPruning::apply,
          CollapseProject::apply,
          CombineUnions::apply,
          FoldablePropagation::apply,
          NullPropagation::apply,
          ConstantFolding::apply,
          OptimizeIn::apply,
          BooleanSimplification::apply,
          SimplifyBinaryComparison::apply,
          SimplifyCasts::apply,
          PruneFilters::apply,
          EliminateLimits::apply,
          EliminateSorts::apply,
          PropagateEmptyRelation::apply,
          RemoveRedundantAliases::apply,
          RemoveNoopOperators::apply,
          // What reads a UNION of EXCEPT ALL or INTERSECT ALL takes its columns for those of the first branch.
          UpdateAttributeNullability::apply);

  private static final Set<JoinType> OUTER =
      Set.of(LeftOuter$.MODULE$, RightOuter$.MODULE$, FullOuter$.MODULE$);

  private NormalForm() {}

  /** Returns an analysed plan without WITH, correlated and lateral subqueries, and operations on sets. */
  public static LogicalPlan of(LogicalPlan analysed) {
    return withoutSubqueries(new InlineCTE(true, false).apply(analysed));
  }

  /**
   * Returns a plan in normal form, and the plans of the scalar subqueries in it, reduced.
   *
   * <p>Conditions are not moved below an aggregate or a window: two that differ only in the conditions above
   * them remain equal.
   */
  static LogicalPlan reduced(LogicalPlan normalForm) {
    return reduced(normalForm, new HashMap<>());
  }

  private static LogicalPlan reduced(LogicalPlan plan, Map<ExprId, LogicalPlan> subqueries) {
    LogicalPlan reduced = withInnerJoins(fixed(REDUCING, applied(OF_NAMES, plan)));
    return Subqueries.replaced(
        reduced,
        each -> {
          // A rule may have copied the expression. The copies keep one plan.
          LogicalPlan own = subqueries.get(each.exprId());
          if (own == null) {
            own = reduced(withoutSubqueries(each.plan()), subqueries);
            subqueries.put(each.exprId(), own);
          }
          return own;
        });
  }

  /**
   * Replaces outer joins by inner ones where a condition of another join rejects their NULLs.
   *
   * <p>Spark sees that only by conditions that it infers. They remain only if they were of use, because they
   * make aggregates differ that compute the same.
   */
  private static LogicalPlan withInnerJoins(LogicalPlan plan) {
    long before = outerJoins(plan);
    if (before == 0) {
      return plan;
    }
    LogicalPlan inferred = fixed(REDUCING, InferFiltersFromConstraints.apply(plan));
    return outerJoins(inferred) < before ? inferred : plan;
  }

  private static long outerJoins(LogicalPlan plan) {
    long own = plan instanceof Join join && OUTER.contains(join.joinType()) ? 1 : 0;
    return own + CollectionConverters.asJava(plan.children()).stream().mapToLong(NormalForm::outerJoins).sum();
  }

  private static LogicalPlan withoutSubqueries(LogicalPlan plan) {
    return applied(OF_SETS, fixed(List.of(NormalForm::withJoins), plan));
  }

  /**
   * Replaces subqueries by joins. As in Spark's optimizer, the conditions of a subquery are pulled up before
   * those within it are replaced, and these before itself. An EXISTS that is not correlated becomes a scalar
   * subquery with a row or none.
   */
  private static LogicalPlan withJoins(LogicalPlan plan) {
    LogicalPlan inner =
        Subqueries.replaced(
            PullupCorrelatedPredicates.apply(RewriteNonCorrelatedExists.apply(plan)),
            each -> fixed(List.of(NormalForm::withJoins), each.plan()));
    return applied(BY_JOINS, inner);
  }

  private static LogicalPlan applied(List<UnaryOperator<LogicalPlan>> rules, LogicalPlan plan) {
    LogicalPlan rewritten = plan;
    for (UnaryOperator<LogicalPlan> rule : rules) {
      rewritten = rule.apply(rewritten);
    }
    return rewritten;
  }

  /** Applies rules until they change nothing. */
  private static LogicalPlan fixed(List<UnaryOperator<LogicalPlan>> rules, LogicalPlan plan) {
    LogicalPlan before = plan;
    for (int round = 0; round < MOST_ROUNDS; round++) {
      LogicalPlan after = applied(rules, before);
      if (after.fastEquals(before)) {
        return after;
      }
      before = after;
    }
    return before;
  }

  private static LogicalPlan predicatesPushed(LogicalPlan plan) {
    return plan.transformDown(PredicatesPushed.RULE);
  }

  /** Spark's PushDownPredicates without its cases of aggregates and windows. */
  private static final class PredicatesPushed extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final PredicatesPushed RULE = new PredicatesPushed();
    private static final PartialFunction<LogicalPlan, LogicalPlan> CASES =
        CombineFilters.applyLocally()
            .orElse(PushPredicateThroughNonJoin.applyLocally())
            .orElse(PushPredicateThroughJoin.applyLocally());

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      boolean stays =
          plan instanceof Filter filter
              && (filter.child() instanceof Aggregate || filter.child() instanceof Window);
      return !stays && CASES.isDefinedAt(plan);
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return CASES.apply(plan);
    }
  }
}
