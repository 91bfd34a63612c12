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
    for (int row = 0; row < deleted.length; row++) {
      if (!deleted[row]) {
        add(stored, values, row);
      }
    }
  }

  /** Adds a value of a batch. */
  void add(StoredColumn stored, ColumnVector values, int row) {
    makeRoom(stored);
    if (values.isNullAt(row)) {
      nulls.set(count);
    } else if (stored.isFixed()) {
      bits[count] = stored.bits(values, row);
    } else {
      objects[count] = stored.object(values, row);
    }
    count++;
  }

  /** Adds a value of another column of the same type. */
  void add(HeldColumn other, int row) {
    makeRoom(other.column);
    if (other.nulls.get(row)) {
      nulls.set(count);
    } else if (column.isFixed()) {
      bits[count] = other.bits[row];
    } else {
      objects[count] = other.objects[row];
    }
    count++;
  }

  /** Returns the values of some rows, as a column of their own. */
  HeldColumn select(int[] rows) {
    HeldColumn selected = new HeldColumn(rows.length);
    selected.column = column;
    for (int row : rows) {
      selected.add(this, row);
    }
    return selected;
  }

  /** Returns the values at some places of a column of all rows of a file. */
  HeldColumn select(long[] places) {
    return select(Arrays.stream(places).mapToInt(Math::toIntExact).toArray());
  }

  private void makeRoom(StoredColumn stored) {
    column = stored;
    if (stored.isFixed() && bits.length == count) {
      bits = Arrays.copyOf(bits, room(1));
    } else if (!stored.isFixed() && objects.length == count) {
      objects = Arrays.copyOf(objects, room(1));
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

  /** Returns a value in the form of Spark's internal rows. */
  Object value(int row) {
    if (nulls.get(row)) {
      return null;
    }
    return column.isFixed() ? column.value(bits[row]) : column.value(objects[row]);
  }
}
