package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.Some;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The plan of a lookup join: Spark joins the added rows, and passes retracted and unmatched rows without a
 * join result.
 *
 * <p>The operator therefore receives every stream row, for all join types.
 */
final class LookupPlan {
  /** The columns of the operator's input rows: number and kind of the stream row, and its join result. */
  static final int ARRIVAL = 0;
  static final int KIND = 1;
  static final int RESULT = 2;

  private final Join join;
  private final int stream;
  private final String type;
  private final List<Attribute> columns;
  private final Attribute kind;

  LookupPlan(Join join, int stream) {
    this.join = join;
    this.stream = stream;
    type = join.joinType().sql();
    List<Attribute> output = CollectionConverters.asJava(input(stream).output());
    columns = output.subList(0, output.size() - 1);
    kind = output.get(columns.size());
  }

  LogicalPlan of(KeptState kept) {
    LogicalPlan rows = KeyedRows.numbered(input(stream));
    Attribute arrival = rows.output().last();
    List<NamedExpression> table = new ArrayList<>(CollectionConverters.asJava(input(1 - stream).output()));
    Alias marked = KeyedRows.alias(Literal$.MODULE$.apply(true), "matched");
    table.add(marked);
    LogicalPlan looked = new Project(KeyedRows.seq(table), input(1 - stream));
    LogicalPlan joined =
        new Join(
            stream == 0 ? rows : looked, stream == 0 ? looked : rows,
            stream == 0 ? LeftOuter$.MODULE$ : RightOuter$.MODULE$,
            new Some<>(condition()), join.hint());
    List<Attribute> output = new ArrayList<>(CollectionConverters.asJava(join.output()));
    output.removeIf(column -> column.exprId().equals(kind.exprId()));
    CreateNamedStruct row = KeyedRows.struct(output);
    PackedRow result = new PackedRow(row.dataType().asNullable());
    List<NamedExpression> taken =
        new ArrayList<>(List.of(arrival, kind, KeyedRows.alias(given(marked, result.packed(row)), "result")));
    int eventTime = EntryTimes.column(columns);
    if (eventTime >= 0) {
      taken.add(columns.get(eventTime));
    }
    taken.add(KeyedRows.alias(key(), "key"));
    LogicalPlan project = new Project(KeyedRows.seq(taken), joined);
    List<Attribute> given = CollectionConverters.asJava(project.output());
    output.add(Changelogs.kind());
    int key = given.size() - 1;
    return KeyedRows.transformedUnconverted(
        project, List.of(given.get(key)), given.subList(0, key), output,
        new LookupJoin(result, type.equals("LEFT SEMI"), kept, eventTime < 0 ? -1 : RESULT + 1));
  }

  private LogicalPlan input(int side) {
    return side == 0 ? join.left() : join.right();
  }

  private Expression condition() {
    Expression adds = Changelogs.isAdded(kind);
    return join.condition().isEmpty() ? adds : new And(adds, join.condition().get());
  }

  /** Returns the join result of a stream row and its matching table row, or NULL if there is no result. */
  private Expression given(Alias matched, Expression result) {
    Expression none = new Literal(null, DataTypes.BinaryType);
    return switch (type) {
      case "INNER", "CROSS", "LEFT SEMI" -> new If(new IsNotNull(matched.toAttribute()), result, none);
      case "LEFT ANTI" -> new If(new IsNull(matched.toAttribute()), result, none);
      default -> result;
    };
  }

  private Expression key() {
    List<Expression> parts = new ArrayList<>();
    for (Attribute column : columns) {
      parts.add(Literal$.MODULE$.apply("column" + parts.size() / 2));
      parts.add(KeyedRows.normalized(column));
    }
    CreateNamedStruct row = new CreateNamedStruct(KeyedRows.seq(parts));
    return new PackedRow(row.dataType().asNullable()).packed(row);
  }
}
