package freshtable.files;

import freshtable.inline.Rows;
import java.util.ArrayList;
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
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StructField;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** The rows that have a partner in other rows. */
public final class SemiJoin {
  private SemiJoin() {}

  /**
   * Returns the rows of which each of the {@code columns} has a value that occurs in the column of the
   * {@code others} at the same index of {@code of}. NULL matches NULL where {@code nullSafe} is set, and
   * otherwise nothing.
   *
   * <p>Columns are compared one by one, and types that cannot be compared here match. So the result may
   * contain further rows, but misses none.
   */
  public static Rows of(Rows rows, String[] columns, Rows others, String[] of, boolean[] nullSafe) {
    int[] ordinals = IntStream.range(0, columns.length)
        .map(index -> rows.columns().fieldIndex(columns[index])).toArray();
    DataType[] types = new DataType[columns.length];
    WantedValues[] values = new WantedValues[columns.length];
    for (int index = 0; index < columns.length; index++) {
      types[index] = rows.columns().apply(ordinals[index]).dataType();
      values[index] = new WantedValues(
          others, others.columns().fieldIndex(of[index]), types[index], nullSafe[index]);
    }
    return rows.where(
        row -> IntStream.range(0, columns.length)
            .allMatch(index -> values[index].matches(row, ordinals[index], types[index])));
  }

  /**
   * Returns the rows whose values in all {@code columns} are together in one of the {@code others}, in the
   * columns {@code of}.
   *
   * <p>Integers are compared by value whatever their width, and other columns must be of the same type, which
   * is one that GROUP BY permits.
   */
  public static Rows exact(Rows rows, String[] columns, Rows others, String[] of, boolean[] nullSafe) {
    return where(true, rows, columns, others, of, nullSafe);
  }

  /** Returns the other rows than {@link #exact}, among those without a NULL that equals nothing. */
  public static Rows without(Rows rows, String[] columns, Rows others, String[] of, boolean[] nullSafe) {
    return where(false, rows, columns, others, of, nullSafe);
  }

  private static Rows where(
      boolean found, Rows rows, String[] columns, Rows others, String[] of, boolean[] nullSafe) {
    Tuples own = new Tuples(rows, columns, others, of, nullSafe);
    Tuples given = new Tuples(others, of, rows, columns, nullSafe);
    Set<UnsafeRow> tuples = new HashSet<>();
    for (InternalRow row : others) {
      UnsafeRow tuple = given.of(row);
      if (tuple != null && !tuples.contains(tuple)) {
        tuples.add(tuple.copy());
      }
    }
    return rows.where(row -> {
      UnsafeRow tuple = own.of(row);
      return tuple != null && tuples.contains(tuple) == found;
    });
  }

  /** The values of rows in columns that are compared with columns of others, equal if their bytes are. */
  private static final class Tuples {
    private final UnsafeProjection values;
    private final int[] notNull;

    Tuples(Rows rows, String[] columns, Rows others, String[] of, boolean[] nullSafe) {
      List<Expression> values = new ArrayList<>();
      for (int index = 0; index < columns.length; index++) {
        int ordinal = rows.columns().fieldIndex(columns[index]);
        StructField column = rows.columns().apply(ordinal);
        values.add(
            comparable(
                new BoundReference(ordinal, column.dataType(), column.nullable()),
                others.columns().apply(of[index]).dataType()));
      }
      this.values = UnsafeProjection.create(CollectionConverters.asScala(values).toSeq());
      this.notNull = IntStream.range(0, nullSafe.length).filter(index -> !nullSafe[index]).toArray();
    }

    private static Expression comparable(Expression value, DataType other) {
      DataType type = value.dataType();
      if (type.asNullable().equals(other.asNullable())) {
        return NormalizeFloatingNumbers$.MODULE$.normalize(value);
      }
      if (type instanceof IntegralType && other instanceof IntegralType) {
        return new Cast(value, DataTypes.LongType, Option.empty(), EvalMode.ANSI());
      }
      throw new IllegalArgumentException(
          "Values of types " + type.catalogString() + " and " + other.catalogString() + " are not compared.");
    }

    /** Returns the values of a row until the next call, or null if one is NULL that equals nothing. */
    UnsafeRow of(InternalRow row) {
      UnsafeRow tuple = values.apply(row);
      for (int index : notNull) {
        if (tuple.isNullAt(index)) {
          return null;
        }
      }
      return tuple;
    }
  }
}
