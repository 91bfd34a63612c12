package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ObjectType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A row that Spark gives as it lies in its buffer, structs inside it as well:
 * it holds until the next one comes.
 *
 * <p>Of any other struct Spark copies each column into an object of its own first.
 */
public final class UnconvertedRow {
  private UnconvertedRow() {}

  /** Returns {@code row} itself: what the generated code calls. */
  public static InternalRow of(InternalRow row) {
    return row;
  }

  /** Returns the expression of an object that is the row which {@code struct} gives. */
  static Expression expression(Expression struct) {
    return new StaticInvoke(
        UnconvertedRow.class, new ObjectType(InternalRow.class),
        "of", CollectionConverters.asScala(List.of(struct)).toSeq(),
        CollectionConverters.<AbstractDataType>asScala(List.of()).toSeq(), true, true, true,
        scala.Option.empty());
  }
}
