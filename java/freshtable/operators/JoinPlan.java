package freshtable.operators;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** The plan of a regular join: a union of both inputs, with the equal columns as keys. */
final class JoinPlan {
  /** The columns of the operator's input rows: the side, the left row, the right row, and the row kind. */
  static final int SIDE = 0;
  static final int ROWS = 1;
  static final int KIND = 3;

  private final Join join;
  private final JoinKind kind;
  private final List<Boolean> kinds;
  private final List<List<Attribute>> columns = new ArrayList<>();
  private final List<List<Expression>> keys;
  private final Expression condition;

  JoinPlan(Join join, List<Boolean> kinds) {
    this.join = join;
    this.kind = JoinKind.of(join.joinType().sql());
    this.kinds = kinds;
    for (int side = 0; side < 2; side++) {
      List<Attribute> output = CollectionConverters.asJava(input(side).output());
      columns.add(output.subList(0, output.size() - (kinds.get(side) ? 1 : 0)));
    }
    var equal = ExtractEquiJoinKeys.unapply(join);
    // If there are no equal columns, all rows have the same key.
    List<Expression> none = List.of(Literal$.MODULE$.apply((byte) 0));
    keys =
        equal.isEmpty()
            ? List.of(none, none)
            : List.of(CollectionConverters.asJava(equal.get()._2()),
                CollectionConverters.asJava(equal.get()._3()));
    condition = (equal.isEmpty() ? join.condition() : equal.get()._4()).getOrElse(() -> null);
  }

  LogicalPlan of(List<TtlPolicy> policies) {
    boolean takesOut = kinds.contains(true);
    List<Attribute> output = new ArrayList<>();
    List<ExprId> inputKinds = new ArrayList<>();
    for (int side = 0; side < 2; side++) {
      if (kinds.get(side)) {
        inputKinds.add(input(side).output().last().exprId());
      }
    }
    for (Attribute column : CollectionConverters.asJava(join.output())) {
      if (!inputKinds.contains(column.exprId())) {
        output.add(withoutWatermark(column));
      }
    }
    if (takesOut || kind.takesBack()) {
      output.add(Changelogs.kind());
    }
    LogicalPlan union = new Union(KeyedRows.seq(List.of(rows(0), rows(1))), false, false);
    List<Attribute> taken = CollectionConverters.asJava(union.output());
    List<Expression> keys = taken.subList(KIND + 1, taken.size())
        .stream().map(KeyedRows::normalized).toList();
    JoinSide left = side(0, new KeptState("leftState", policies.get(0)));
    JoinSide right = side(1, new KeptState("rightState", policies.get(1)));
    return KeyedRows.transformedUnconverted(
        union, keys, taken.subList(0, KIND + 1), output,
        new RegularJoin(kind, left, right, condition == null ? null : bound(condition), takesOut));
  }

  private JoinSide side(int side, KeptState kept) {
    return new JoinSide(kept, struct(side).dataType().asNullable(), EntryTimes.column(columns.get(side)));
  }

  private LogicalPlan input(int side) {
    return side == 0 ? join.left() : join.right();
  }

  /**
   * Returns the rows of a side in the form that both sides share.
   *
   * <p>Rows that cannot match are omitted, unless the join emits them as single rows.
   */
  private LogicalPlan rows(int side) {
    List<NamedExpression> rows = new ArrayList<>();
    rows.add(KeyedRows.alias(Literal$.MODULE$.apply((byte) side), "side"));
    for (int other = 0; other < 2; other++) {
      CreateNamedStruct row = struct(other);
      rows.add(KeyedRows.alias(other == side ? row : new Literal(null, row.dataType()), "row" + other));
    }
    Expression inserted = Literal$.MODULE$.apply(RowKind.INSERT);
    rows.add(KeyedRows.alias(kinds.get(side) ? input(side).output().last() : inserted, "kind"));
    Expression complete = null;
    for (Expression key : keys.get(side)) {
      rows.add(KeyedRows.alias(key, "key"));
      Expression present = new IsNotNull(key);
      complete = !key.nullable() ? complete : complete == null ? present : new And(complete, present);
    }
    boolean givesUnmatched = (side == 0 ? kind.left : kind.right) && kind.givesAlone(0);
    LogicalPlan input = input(side);
    return new Project(KeyedRows.seq(rows),
        givesUnmatched || complete == null ? input : new Filter(complete, input));
  }

  /**
   * Returns the row of a side with columns named by position, because their names are part of the state
   * schema.
   */
  private CreateNamedStruct struct(int side) {
    List<Expression> parts = new ArrayList<>();
    for (Attribute column : columns.get(side)) {
      parts.add(Literal$.MODULE$.apply("column" + parts.size() / 2));
      parts.add(column);
    }
    return new CreateNamedStruct(KeyedRows.seq(parts));
  }

  /**
   * Returns the condition over a pair of rows in a form that can be evaluated, because Spark will not rewrite
   * it.
   */
  private Expression bound(Expression found) {
    List<Attribute> pair = new ArrayList<>(columns.get(0));
    pair.addAll(columns.get(1));
    LogicalPlan relation = new LocalRelation(
        KeyedRows.seq(pair), KeyedRows.seq(List.of()), false, Option.empty());
    LogicalPlan plan = RewriteWithExpression.apply(ReplaceExpressions.apply(new Filter(found, relation)));
    Map<ExprId, Expression> computed = new HashMap<>();
    Expression whole = null;
    for (LogicalPlan node = plan; node != relation && !node.children().isEmpty();
        node = node.children().head()) {
      if (node instanceof Filter) {
        whole = ((Filter) node).condition();
      } else if (whole != null) {
        aliases((Project) node, computed);
      }
    }
    Expression inlined = replaced(whole, computed);
    Map<ExprId, Expression> positions = new HashMap<>();
    for (int position = 0; position < pair.size(); position++) {
      Attribute column = pair.get(position);
      positions.put(column.exprId(), new BoundReference(position, column.dataType(), true));
    }
    return replaced(inlined, positions);
  }

  private static Expression replaced(Expression whole, Map<ExprId, Expression> values) {
    return whole.transformUp(
            new AbstractPartialFunction<Expression, Expression>() {
              @Override
              public boolean isDefinedAt(Expression each) {
                return each instanceof AttributeReference
                    && values.containsKey(((AttributeReference) each).exprId());
              }

              @Override
              public Expression apply(Expression each) {
                return values.get(((AttributeReference) each).exprId());
              }
            });
  }

  private static void aliases(Project project, Map<ExprId, Expression> computed) {
    for (NamedExpression item : CollectionConverters.asJava(project.projectList())) {
      if (item instanceof Alias) {
        computed.put(item.exprId(), ((Alias) item).child());
      }
    }
  }

  /** Returns a column without its watermark, because joined rows can be arbitrarily late. */
  private static Attribute withoutWatermark(Attribute column) {
    return column.withMetadata(
        new MetadataBuilder().withMetadata(column.metadata()).remove("spark.watermarkDelayMs").build());
  }
}
