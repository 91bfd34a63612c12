package freshtable.operators;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateOrdering$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of a key that an operator emits: those with the numbers {@code first} to {@code last}, counted
 * from 1, in the order of the columns {@code order}.
 *
 * <p>Ties, and all rows if {@code order} is empty, are ordered by arrival. The earliest row comes first or,
 * with {@code latestFirst}, the latest.
 */
public record Ranking(
    List<SortOrder> order, boolean latestFirst, int first, int last) implements Serializable {

  /** Returns the ranking bound to the columns of {@code child}. Its order must consist of columns. */
  Ranking bound(LogicalPlan child) {
    List<Attribute> columns = CollectionConverters.asJava(child.output());
    List<SortOrder> found = new ArrayList<>();
    for (SortOrder each : order) {
      ExprId id = ((Attribute) each.child()).exprId();
      int position = 0;
      while (!columns.get(position).exprId().equals(id)) {
        position++;
      }
      Expression column = new BoundReference(position, each.child().dataType(), each.child().nullable());
      found.add(new SortOrder(column, each.direction(), each.nullOrdering(), none()));
    }
    return new Ranking(found, latestFirst, first, last);
  }

  /** Returns the comparator by the columns of a bound ranking. */
  Comparator<InternalRow> byColumns() {
    if (order.isEmpty()) {
      return (left, right) -> 0;
    }
    Seq<SortOrder> columns = CollectionConverters.asScala(order).toSeq();
    return GenerateOrdering$.MODULE$.generate(columns)::compare;
  }

  private static Seq<Expression> none() {
    return CollectionConverters.<Expression>asScala(List.of()).toSeq();
  }
}
