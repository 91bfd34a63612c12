package freshtable.files;

import freshtable.inline.Rows;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** The values to look up in a column, which may include NULL. */
final class WantedValues {
  private final Set<UTF8String> texts = new HashSet<>();
  private final long[] table;
  private final int mask;
  private boolean zero;
  private boolean nothing;

  /** Returns the values of each column of {@code rows}. */
  static List<WantedValues> all(Rows rows) {
    List<WantedValues> values = new ArrayList<>();
    for (int column = 0; column < rows.columns().length(); column++) {
      values.add(new WantedValues(rows, column));
    }
    return values;
  }

  private WantedValues(Rows rows, int column) {
    int size = Math.max(16, Integer.highestOneBit(Math.max(1, rows.size())) * 4);
    table = new long[size];
    mask = size - 1;
    DataType type = rows.columns().fields()[column].dataType();
    for (InternalRow row : rows) {
      if (row.isNullAt(column)) {
        nothing = true;
      } else if (type instanceof BooleanType) {
        add(row.getBoolean(column) ? 1 : 0);
      } else if (type instanceof IntegerType || type instanceof DateType) {
        add(row.getInt(column));
      } else if (DataTypes.StringType.equals(type)) {
        texts.add(row.getUTF8String(column).clone());
      } else if (type instanceof DecimalType decimal) {
        Decimal value = row.getDecimal(column, decimal.precision(), decimal.scale());
        if (decimal.precision() <= Decimal.MAX_LONG_DIGITS()) {
          add(value.toUnscaledLong());
        }
      } else if (type instanceof LongType || type instanceof TimestampType
          || type instanceof TimestampNTZType) {
        add(row.getLong(column));
      }
    }
  }

  /** Returns whether the column's values can be compared here. If not, each of them may match. */
  boolean tells(StoredColumn column) {
    return column.isNumber() || column.isText();
  }

  /** Returns whether a value of the column is one of these values. */
  boolean has(StoredColumn column, ColumnVector values, int row) {
    if (values.isNullAt(row)) {
      return nothing;
    }
    return column.isNumber() ? has(column.bits(values, row)) : texts.contains(values.getUTF8String(row));
  }

  /** Returns whether a value of a numeric column is one of these values. */
  boolean has(HeldColumn column, int row) {
    return column.isNull(row) ? nothing : has(column.bits(row));
  }

  /**
   * Returns a condition that all matching rows of a file meet, by which pages are skipped, or null if there
   * is none.
   */
  FilterPredicate condition(StoredColumn column) {
    if (nothing || column.type() instanceof DecimalType) {
      return null;
    }
    String name = column.stored().getName();
    PrimitiveTypeName stored = column.stored().getPrimitiveTypeName();
    if (column.isText() && !texts.isEmpty()) {
      Set<Binary> bytes = new HashSet<>();
      texts.forEach(text -> bytes.add(Binary.fromConstantByteArray(text.getBytes())));
      return FilterApi.in(FilterApi.binaryColumn(name), bytes);
    }
    Set<Long> numbers = numbers();
    if (numbers.isEmpty()) {
      return null;
    }
    if (stored == PrimitiveTypeName.INT64) {
      return FilterApi.in(FilterApi.longColumn(name), numbers);
    }
    if (stored == PrimitiveTypeName.INT32) {
      Set<Integer> integers = new HashSet<>();
      numbers.forEach(number -> integers.add(Math.toIntExact(number)));
      return FilterApi.in(FilterApi.intColumn(name), integers);
    }
    return null;
  }

  private Set<Long> numbers() {
    Set<Long> numbers = new HashSet<>();
    for (long number : table) {
      if (number != 0) {
        numbers.add(number);
      }
    }
    if (zero) {
      numbers.add(0L);
    }
    return numbers;
  }

  private void add(long number) {
    if (number == 0) {
      zero = true;
      return;
    }
    int place = place(number);
    while (table[place] != 0 && table[place] != number) {
      place = place + 1 & mask;
    }
    table[place] = number;
  }

  private boolean has(long number) {
    if (number == 0) {
      return zero;
    }
    int place = place(number);
    while (table[place] != 0) {
      if (table[place] == number) {
        return true;
      }
      place = place + 1 & mask;
    }
    return false;
  }

  private int place(long number) {
    long mixed = number * 0x9E3779B97F4A7C15L;
    return (int) (mixed ^ mixed >>> 32) & mask;
  }
}
