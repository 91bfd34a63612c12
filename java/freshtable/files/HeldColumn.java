package freshtable.files;

import java.util.Arrays;
import java.util.BitSet;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The values of a column of several files, one after the other, in memory. */
final class HeldColumn {
  private final BitSet nulls = new BitSet();
  private long[] bits = {};
  private Object[] objects = {};
  private StoredColumn column;
  private int count;

  /** Adds the values of the rows of a batch that are not deleted. */
  void add(StoredColumn stored, ColumnVector values, boolean[] deleted) {
    int rows = deleted.length;
    column = stored;
    boolean fixed = stored.isFixed();
    if (fixed && bits.length < count + rows) {
      bits = Arrays.copyOf(bits, 2 * (count + rows));
    } else if (!fixed && objects.length < count + rows) {
      objects = Arrays.copyOf(objects, 2 * (count + rows));
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

  int count() {
    return count;
  }

  /** Returns whether two values, of columns of one type, are the same. */
  boolean isSame(int row, HeldColumn other, int otherRow) {
    boolean nothing = nulls.get(row);
    if (nothing || other.nulls.get(otherRow)) {
      return nothing == other.nulls.get(otherRow);
    }
    return column.isFixed() ? bits[row] == other.bits[otherRow] : objects[row].equals(other.objects[otherRow]);
  }

  /** Returns a value as one of Spark's internal rows has it. */
  Object value(int row) {
    if (nulls.get(row)) {
      return null;
    }
    return column.isFixed() ? column.value(bits[row]) : column.value(objects[row]);
  }
}
