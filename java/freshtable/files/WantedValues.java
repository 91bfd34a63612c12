package freshtable.files;

import freshtable.inline.Rows;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.filter2.predicate.Operators;
import org.apache.parquet.filter2.predicate.Statistics;
import org.apache.parquet.filter2.predicate.UserDefinedPredicate;
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

/**
 * The values to look up in a column, which may include NULL. Integers are compared by value whatever their
 * width.
 */
final class WantedValues {
  /** The maximum number of values for which bloom filters are asked. */
  private static final int MOST_BLOOM = 1000;

  private final DataType type;
  /** Whether values of the column can be compared with these values. If not, each of them may match. */
  private final boolean comparable;
  /** The number of each text. */
  private final Map<UTF8String, Integer> texts = new HashMap<>();
  /** A hash table of numbers other than 0. The number of a value is its place. */
  private final long[] table;
  private final int mask;
  private int used;
  private boolean zero;
  private boolean nothing;
  private long[] sorted;

  /**
   * Creates the values in a column of {@code rows} that a column of type {@code in} may contain. NULL is one of
   * them only if {@code nullSafe} is set.
   */
  WantedValues(Rows rows, int column, DataType in, boolean nullSafe) {
    int size = Math.max(16, Integer.highestOneBit(Math.max(1, rows.size())) * 4);
    table = new long[size];
    mask = size - 1;
    type = rows.columns().fields()[column].dataType();
    comparable = (DataTypes.StringType.equals(type) || isNumber())
        && (type.equals(in) || isInteger(type) && isInteger(in));
    for (InternalRow row : rows) {
      if (row.isNullAt(column)) {
        nothing |= nullSafe;
      } else if (comparable) {
        add(row, column, in);
      }
    }
  }

  private void add(InternalRow row, int column, DataType in) {
    if (isText()) {
      UTF8String text = row.getUTF8String(column);
      if (!texts.containsKey(text)) {
        texts.put(text.clone(), texts.size());
      }
      return;
    }
    long bits = bits(row, column, type);
    if (!(in instanceof IntegerType) || (int) bits == bits) {
      add(bits);
    }
  }

  /** Returns whether the values can be compared here. If not, each value of the column may match. */
  boolean areCompared() {
    return comparable;
  }

  /** Returns how many different values there are, or 0 if they cannot be compared here. */
  int distinct() {
    return used + texts.size() + (zero ? 1 : 0) + (nothing ? 1 : 0);
  }

  /** Returns whether no value of the column matches. */
  boolean isEmpty() {
    return comparable && distinct() == 0;
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

  /** Returns whether a value in a column of a row may be one of these values. */
  boolean matches(InternalRow row, int column, DataType in) {
    return number(row, column, in) >= 0;
  }

  /** Returns the number of a value in a column of a row, or -1 if it is not one of these values. */
  int number(InternalRow row, int column, DataType in) {
    if (row.isNullAt(column)) {
      return ofNull();
    }
    if (!comparable) {
      return 0;
    }
    return isText() ? number(row.getUTF8String(column)) : number(bits(row, column, in));
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
      int number = number(row, column, type);
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
    if (distinct() == 0) {
      return null;
    }
    if (stored == PrimitiveTypeName.INT64) {
      Operators.LongColumn of = FilterApi.longColumn(name);
      FilterPredicate within = FilterApi.userDefined(of, new WithinPages<Long>(sorted()));
      return isLong() ? within : FilterApi.and(within, FilterApi.in(of, boxed(Long::valueOf)));
    }
    if (stored == PrimitiveTypeName.INT32) {
      Operators.IntColumn of = FilterApi.intColumn(name);
      FilterPredicate within = FilterApi.userDefined(of, new WithinPages<Integer>(sorted()));
      return isLong() ? within : FilterApi.and(within, FilterApi.in(of, boxed(Math::toIntExact)));
    }
    return null;
  }

  /** Returns whether a bloom filter, which is asked for each value, would hardly exclude all of them. */
  private boolean isLong() {
    return distinct() > MOST_BLOOM;
  }

  private <T> Set<T> boxed(LongFunction<T> box) {
    return Arrays.stream(sorted()).mapToObj(box).collect(Collectors.toSet());
  }

  /** Returns whether the values are integers that tell which files and pages may contain them. */
  boolean areOrdered() {
    return comparable && !nothing && isNumber()
        && !(type instanceof DecimalType || type instanceof BooleanType);
  }

  /** Returns whether one of the values is in a range. */
  boolean isAnyWithin(long low, long high) {
    return isAny(sorted(), low, high);
  }

  private static boolean isAny(long[] numbers, long low, long high) {
    int found = Arrays.binarySearch(numbers, low);
    int next = found >= 0 ? found : -found - 1;
    return next < numbers.length && numbers[next] <= high;
  }

  /** Excludes pages and row groups whose range contains none of the values. */
  private static final class WithinPages<T extends Number & Comparable<T>>
      extends UserDefinedPredicate<T> implements Serializable {
    private static final long serialVersionUID = 1;

    private final long[] numbers;

    WithinPages(long[] numbers) {
      this.numbers = numbers;
    }

    @Override
    public boolean acceptsNullValue() {
      return false;
    }

    @Override
    public boolean keep(T value) {
      return isAny(numbers, value.longValue(), value.longValue());
    }

    @Override
    public boolean canDrop(Statistics<T> page) {
      return !isAny(numbers, page.getMin().longValue(), page.getMax().longValue());
    }

    @Override
    public boolean inverseCanDrop(Statistics<T> page) {
      return false;
    }
  }

  /** Returns the numbers in order. */
  private synchronized long[] sorted() {
    if (sorted == null) {
      sorted = LongStream.concat(Arrays.stream(table).filter(number -> number != 0),
          zero ? LongStream.of(0) : LongStream.empty()).sorted().toArray();
    }
    return sorted;
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

  private boolean isText() {
    return DataTypes.StringType.equals(type);
  }

  private static boolean isInteger(DataType type) {
    return type instanceof IntegerType || type instanceof LongType;
  }

  private static long bits(InternalRow row, int column, DataType type) {
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
