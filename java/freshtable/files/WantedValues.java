package freshtable.files;

import freshtable.inline.Rows;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
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
  private final DataType type;
  /** The number of each text. */
  private final Map<UTF8String, Integer> texts = new HashMap<>();
  /** A hash table of numbers other than 0. The number of a value is its place. */
  private final long[] table;
  private final int mask;
  private int used;
  private boolean zero;
  private boolean nothing;

  /** Returns the values of each of the first columns of {@code rows}. */
  static List<WantedValues> all(Rows rows, int columns) {
    List<WantedValues> values = new ArrayList<>();
    for (int column = 0; column < columns; column++) {
      values.add(new WantedValues(rows, column));
    }
    return values;
  }

  private WantedValues(Rows rows, int column) {
    int size = Math.max(16, Integer.highestOneBit(Math.max(1, rows.size())) * 4);
    table = new long[size];
    mask = size - 1;
    type = rows.columns().fields()[column].dataType();
    for (InternalRow row : rows) {
      if (row.isNullAt(column)) {
        nothing = true;
      } else if (DataTypes.StringType.equals(type)) {
        texts.putIfAbsent(row.getUTF8String(column).clone(), texts.size());
      } else if (isNumber()) {
        add(bits(row, column));
      }
    }
  }

  /** Returns whether the column's values can be compared here. If not, each of them may match. */
  boolean tells(StoredColumn column) {
    return column.isNumber() || column.isText();
  }

  /** Returns whether files store these values in a form that can be compared here. */
  boolean areCompared() {
    return DataTypes.StringType.equals(type) || isNumber();
  }

  /** Returns how many different values there are, or 0 if they cannot be compared here. */
  int distinct() {
    return areCompared() ? used + texts.size() + (zero ? 1 : 0) + (nothing ? 1 : 0) : 0;
  }

  /** Returns the upper limit of the numbers of values. */
  int numbers() {
    return Math.max(table.length, texts.size()) + 2;
  }

  /** Returns the number of a value of the column, or -1 if it is not one of these values. */
  int number(StoredColumn column, ColumnVector values, int row) {
    if (values.isNullAt(row)) {
      return ofNull();
    }
    return column.isNumber() ? number(column.bits(values, row)) : number(values.getUTF8String(row));
  }

  /** Returns the number of a value of a column in memory, or -1 if it is not one of these values. */
  int number(HeldColumn column, int row) {
    if (column.isNull(row)) {
      return ofNull();
    }
    return column.stored().isNumber() ? number(column.bits(row)) : number((UTF8String) column.value(row));
  }

  /**
   * Returns the rows with each value, by its number. Each row occurs as often as its column {@code copies}
   * says.
   */
  List<List<InternalRow>> rows(Rows rows, int column, int copies) {
    List<List<InternalRow>> all = new ArrayList<>();
    for (int number = 0; number < numbers(); number++) {
      all.add(List.of());
    }
    for (InternalRow row : rows) {
      int number = row.isNullAt(column) ? ofNull()
          : DataTypes.StringType.equals(type) ? number(row.getUTF8String(column)) : number(bits(row, column));
      if (all.get(number).isEmpty()) {
        all.set(number, new ArrayList<>());
      }
      for (int copy = row.getInt(copies); copy > 0; copy--) {
        all.get(number).add(row);
      }
    }
    return all;
  }

  private int ofNull() {
    return nothing ? numbers() - 1 : -1;
  }

  private int number(UTF8String text) {
    return texts.getOrDefault(text, -1);
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
      texts.keySet().forEach(text -> bytes.add(Binary.fromConstantByteArray(text.getBytes())));
      return FilterApi.in(FilterApi.binaryColumn(name), bytes);
    }
    Set<Long> numbers = longs();
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

  private Set<Long> longs() {
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
    if (table[place] == 0) {
      used++;
    }
    table[place] = number;
  }

  private int number(long number) {
    if (number == 0) {
      return zero ? table.length : -1;
    }
    int place = place(number);
    while (table[place] != 0) {
      if (table[place] == number) {
        return place;
      }
      place = place + 1 & mask;
    }
    return -1;
  }

  /** Returns whether values are numbers whose bits can be compared. */
  private boolean isNumber() {
    return type instanceof BooleanType || type instanceof IntegerType || type instanceof DateType
        || type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType
        || type instanceof DecimalType decimal && decimal.precision() <= Decimal.MAX_LONG_DIGITS();
  }

  private long bits(InternalRow row, int column) {
    if (type instanceof BooleanType) {
      return row.getBoolean(column) ? 1 : 0;
    }
    if (type instanceof DecimalType decimal) {
      return row.getDecimal(column, decimal.precision(), decimal.scale()).toUnscaledLong();
    }
    return type instanceof IntegerType || type instanceof DateType
        ? row.getInt(column) : row.getLong(column);
  }

  private int place(long number) {
    long mixed = number * 0x9E3779B97F4A7C15L;
    return (int) (mixed ^ mixed >>> 32) & mask;
  }
}
