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
 * Which rows of a key an operator gives: those with the numbers {@code first} to {@code last}, from 1 on,
 * in the order of the columns {@code order}.
 *
 * <p>Of rows that are equal in it, or of all rows if it has no columns, the one that arrived first comes
 * first, or, with {@code latestFirst}, the one that arrived last.
 */
public record Ranking(
    List<SortOrder> order, boolean latestFirst, int first, int last) implements Serializable {

  /** Returns the ranking of rows that lie as those of {@code child}, of which the order has columns alone. */
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

  /** Returns how two rows stand to each other by the columns of a ranking that is bound. */
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
