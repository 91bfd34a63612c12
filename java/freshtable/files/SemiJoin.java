package freshtable.files;

import freshtable.inline.Rows;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.DataType;

/**
 * The rows that can have a partner in other rows, by hash sets of the values of each column.
 *
 * <p>Columns are compared one by one, and types that cannot be compared here match. So the result may contain
 * further rows, but misses none.
 */
public final class SemiJoin {
  private SemiJoin() {}

  /**
   * Returns the rows of which each of the {@code columns} has a value that occurs in the column of the
   * {@code others} at the same index of {@code of}. NULL matches NULL where {@code nullSafe} is set, and
   * otherwise nothing.
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
}
