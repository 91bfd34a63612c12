package freshtable.inline;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** The different tuples of values in some columns of rows, as rows themselves. */
public final class KeyTuples {
  private final StructType columns;
  private final int[] notNull;
  private final Set<UnsafeRow> tuples = new HashSet<>();
  private final Rows rows;

  /**
   * Creates an empty set of tuples.
   *
   * @param nullSafe whether NULL is a value, for each of the columns. A tuple with another NULL is left out.
   */
  public KeyTuples(StructType columns, boolean[] nullSafe) {
    this.columns = columns;
    this.notNull = IntStream.range(0, nullSafe.length).filter(index -> !nullSafe[index]).toArray();
    this.rows = new Rows(columns);
  }

  /** Adds the values of the named columns, which are of the types of the tuples, or narrower integers. */
  public void add(Rows given, String[] names) {
    UnsafeProjection values = projection(given.columns(), names);
    for (InternalRow row : given) {
      UnsafeRow tuple = values.apply(row);
      if (Arrays.stream(notNull).noneMatch(tuple::isNullAt) && !tuples.contains(tuple)) {
        UnsafeRow copy = tuple.copy();
        tuples.add(copy);
        rows.add(copy);
      }
    }
  }

  private UnsafeProjection projection(StructType given, String[] names) {
    List<Expression> values = new ArrayList<>();
    for (int index = 0; index < names.length; index++) {
      int ordinal = given.fieldIndex(names[index]);
      StructField field = given.apply(ordinal);
      Expression value = new BoundReference(ordinal, field.dataType(), field.nullable());
      StructField own = columns.apply(index);
      values.add(
          field.dataType().asNullable().equals(own.dataType().asNullable())
              ? value
              : new Cast(value, own.dataType(), Option.empty(), EvalMode.ANSI()));
    }
    return UnsafeProjection.create(CollectionConverters.asScala(values).toSeq());
  }

  /** Returns the tuples, in the order in which they were added. */
  public Rows rows() {
    return rows;
  }
}
