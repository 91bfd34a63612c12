package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Passes changelogs, whose last column is the row kind, through the plans of stateless operators. */
public final class Changelogs {
  private static final String KIND = "__row_kind";

  private Changelogs() {}

  /** Returns a new row kind attribute. */
  static Attribute kind() {
    return new AttributeReference(
        KIND, DataTypes.ByteType, false, Metadata.empty(), NamedExpression.newExprId(), seq(List.of()));
  }

  /** Returns an expression that is true if a row of this {@code kind} is added. */
  static Expression isAdded(Attribute kind) {
    return new EqualTo(
        new BitwiseAnd(kind, new Literal((byte) 1, DataTypes.ByteType)),
        new Literal((byte) 0, DataTypes.ByteType));
  }

  /** Returns the append-only {@code plan} as a changelog. */
  public static LogicalPlan added(LogicalPlan plan) {
    Expression kind = new Literal(RowKind.INSERT, DataTypes.ByteType);
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(plan.output()));
    columns.add(new Alias(kind, KIND, NamedExpression.newExprId(),
        seq(List.of()), scala.Option.empty(), seq(List.of())));
    return new Project(seq(columns), plan);
  }

  /** Returns {@code project} over the changelog {@code child}. */
  public static LogicalPlan projected(Project project, LogicalPlan child) {
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    columns.add(child.output().last());
    return new Project(seq(columns), child);
  }

  /** Returns {@code expand} over the changelog {@code child}. */
  public static LogicalPlan expanded(Expand expand, LogicalPlan child) {
    Attribute kind = child.output().last();
    List<Seq<Expression>> rows = new ArrayList<>();
    for (Seq<Expression> row : CollectionConverters.asJava(expand.projections())) {
      List<Expression> columns = new ArrayList<>(CollectionConverters.asJava(row));
      columns.add(kind);
      rows.add(seq(columns));
    }
    List<Attribute> output = new ArrayList<>(CollectionConverters.asJava(expand.output()));
    output.add(kind);
    return new Expand(seq(rows), seq(output), child);
  }

  /** Returns {@code plan} with its column {@code kind} moved to the end. */
  public static LogicalPlan kindLast(LogicalPlan plan, Attribute kind) {
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(plan.output())) {
      if (!column.exprId().equals(kind.exprId())) {
        columns.add(column);
      }
    }
    columns.add(kind);
    return new Project(seq(columns), plan);
  }

  private static <T> Seq<T> seq(List<? extends T> items) {
    return CollectionConverters.<T>asScala(new ArrayList<T>(items)).toSeq();
  }
}
