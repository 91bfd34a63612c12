package freshtable.files;

import java.util.Arrays;
import java.util.BitSet;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The values of a column across several files, in memory. */
final class HeldColumn {
  private final BitSet nulls = new BitSet();
  private long[] bits = {};
  private Object[] objects = {};
  private final int expected;
  private StoredColumn column;
  private int count;

  HeldColumn() {
    this(0);
  }

  /** Reserves capacity for {@code expected} values. */
  HeldColumn(int expected) {
    this.expected = expected;
  }

  /** Adds the values of a batch, without deleted rows. */
  void add(StoredColumn stored, ColumnVector values, boolean[] deleted) {
    int rows = deleted.length;
    column = stored;
    boolean fixed = stored.isFixed();
    if (fixed && bits.length < count + rows) {
      bits = Arrays.copyOf(bits, room(rows));
    } else if (!fixed && objects.length < count + rows) {
      objects = Arrays.copyOf(objects, room(rows));
    }
    for (int row = 0; row < rows; row++) {
      if (deleted[row]) {
        continue;
      }
      if (values.isNullAt(row)) {
        nulls.set(count);
      } else if (fixed) {
        bits[count] = stored.bits(values, row);
      } else {
        objects[count] = stored.object(values, row);
      }
      count++;
    }
  }

  private int room(int rows) {
    return count + rows <= expected ? expected : 2 * (count + rows);
  }

  int count() {
    return count;
  }

  /** Returns the column of the file that provided the last values, or null if there are no values. */
  StoredColumn stored() {
    return column;
  }

  boolean isNull(int row) {
    return nulls.get(row);
  }

  /** Returns a non-NULL value of a fixed-length column. */
  long bits(int row) {
    return bits[row];
  }

  /** Returns whether two values are equal. Their columns must have the same type. */
  boolean isSame(int row, HeldColumn other, int otherRow) {
    boolean nothing = nulls.get(row);
    if (nothing || other.nulls.get(otherRow)) {
      return nothing == other.nulls.get(otherRow);
    }
    return column.isFixed() ? bits[row] == other.bits[otherRow]
        : objects[row].equals(other.objects[otherRow]);
  }

  /** Returns a value in the form of Spark's internal rows. */
  Object value(int row) {
    if (nulls.get(row)) {
      return null;
    }
    return column.isFixed() ? column.value(bits[row]) : column.value(objects[row]);
  }
}
