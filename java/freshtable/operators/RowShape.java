package freshtable.operators;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The layout of numbered rows: the content columns, the row kind if they are changes, and the arrival number.
 *
 * @param eventTime the event time column, or negative if there is none
 */
record RowShape(DataType[] columns, boolean changes, int eventTime) implements Serializable {

  /**
   * Returns the shape that rows of {@code child} have after they are numbered. With {@code changes}, the last
   * column of {@code child} is the row kind.
   */
  static RowShape of(LogicalPlan child, boolean changes) {
    List<Attribute> output = CollectionConverters.asJava(child.output());
    int width = output.size() - (changes ? 1 : 0);
    DataType[] columns = new DataType[width];
    for (int position = 0; position < width; position++) {
      columns[position] = output.get(position).dataType();
    }
    return new RowShape(columns, changes, EntryTimes.column(output.subList(0, width)));
  }

  /**
   * Returns the columns of a changelog of these rows of {@code child}, with the additional column
   * {@code number} if it is not null.
   */
  List<Attribute> output(LogicalPlan child, Attribute number) {
    List<Attribute> output = new ArrayList<>(
        CollectionConverters.asJava(child.output()).subList(0, columns.length));
    if (number != null) {
      output.add(number);
    }
    output.add(Changelogs.kind());
    return output;
  }

  /**
   * Returns the projection to the content of a row, without row kind and arrival number. Equal rows have
   * equal bytes.
   */
  UnsafeProjection content() {
    return UnsafeProjection.create(columns);
  }

  /** Returns the state encoder of the content. */
  Encoder<InternalRow> encoder() {
    return KeyedRows.stateEncoder(List.of(columns));
  }

  /** Returns whether the row is added. If not, it is retracted. */
  boolean adds(InternalRow row) {
    return !changes || RowKind.adds(row.getByte(columns.length));
  }

  long arrival(InternalRow row) {
    return row.getLong(columns.length + (changes ? 1 : 0));
  }
}
