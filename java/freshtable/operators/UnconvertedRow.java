package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ObjectType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A row in Spark's binary buffer, including nested structs. It is valid until the next row is read.
 *
 * <p>For any other struct, Spark first copies each column into an object.
 */
public final class UnconvertedRow {
  private UnconvertedRow() {}

  /** Returns {@code row} itself. Called by generated code. */
  public static InternalRow of(InternalRow row) {
    return row;
  }

  /** Returns the expression that evaluates {@code struct} as a row object. */
  static Expression expression(Expression struct) {
    return new StaticInvoke(
        UnconvertedRow.class, new ObjectType(InternalRow.class),
        "of", CollectionConverters.asScala(List.of(struct)).toSeq(),
        CollectionConverters.<AbstractDataType>asScala(List.of()).toSeq(), true, true, true,
        scala.Option.empty());
  }
}
