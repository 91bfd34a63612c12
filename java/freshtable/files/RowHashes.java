package freshtable.files;

import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * 64-bit hashes of rows over some of their columns, from batches of columns or from single rows.
 *
 * <p>Two rows have the same hash if they have the same values, whatever format they were read from. NaN has
 * one hash, 0.0 and -0.0 have two, and NULL has another hash than any value. Not thread-safe.
 */
final class RowHashes {
  private static final long FIRST = 0x9E3779B97F4A7C15L;
  private static final long NULL = 0xC2B2AE3D27D4EB4FL;
  private static final long NULL_FACTOR = 0x165667B19E3779F9L;
  private static final long SEED = 42;

  private final Column[] columns;

  /** A column of the rows. */
  private record Column(int ordinal, DataType type, Value value, boolean isBatched) {}

  /** The 64 bits that stand for a value that is not NULL. */
  private interface Value {
    long of(SpecializedGetters row, int ordinal);
  }

  /** Hashes the columns that have these ordinals in the rows. */
  RowHashes(StructType columns, int[] ordinals) {
    this.columns =
        IntStream.range(0, ordinals.length)
            .mapToObj(number -> column(columns.apply(number), ordinals[number])).toArray(Column[]::new);
  }

  private static Column column(StructField field, int ordinal) {
    DataType type = field.dataType();
    boolean isBatched = type instanceof IntegerType || type instanceof DateType || isLong(type)
        || type instanceof StringType;
    return new Column(ordinal, type, value(field, ordinal), isBatched);
  }

  private static boolean isLong(DataType type) {
    return type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  /** Returns the hashes of the rows of a batch, in {@code hashes}. */
  void of(ColumnarBatch batch, long[] hashes) {
    int rows = batch.numRows();
    Arrays.fill(hashes, 0, rows, FIRST);
    for (Column column : columns) {
      if (column.isBatched()) {
        add(column, batch.column(column.ordinal()), hashes, rows);
      } else {
        for (int row = 0; row < rows; row++) {
          hashes[row] = with(hashes[row], column, batch.getRow(row));
        }
      }
    }
  }

  /** Returns the hash of a row. */
  long of(InternalRow row) {
    long hash = FIRST;
    for (Column column : columns) {
      hash = with(hash, column, row);
    }
    return hash;
  }

  private static long with(long hash, Column column, InternalRow row) {
    return row.isNullAt(column.ordinal())
        ? withNull(hash) : with(hash, column.value().of(row, column.ordinal()));
  }

  private static void add(Column column, ColumnVector values, long[] hashes, int rows) {
    DataType type = column.type();
    boolean nulls = values.hasNull();
    if (type instanceof StringType) {
      for (int row = 0; row < rows; row++) {
        hashes[row] = nulls && values.isNullAt(row)
            ? withNull(hashes[row]) : with(hashes[row], text(values.getUTF8String(row)));
      }
    } else if (isLong(type)) {
      for (int row = 0; row < rows; row++) {
        hashes[row] = nulls && values.isNullAt(row)
            ? withNull(hashes[row]) : with(hashes[row], values.getLong(row));
      }
    } else {
      for (int row = 0; row < rows; row++) {
        hashes[row] = nulls && values.isNullAt(row)
            ? withNull(hashes[row]) : with(hashes[row], values.getInt(row));
      }
    }
  }

  private static long withNull(long hash) {
    return mixed(hash * NULL_FACTOR + NULL);
  }

  private static long with(long hash, long value) {
    return mixed(hash * FIRST + value);
  }

  /** Returns the final mixing step of MurmurHash3, which is a bijection. */
  private static long mixed(long value) {
    long mixed = (value ^ value >>> 33) * 0xFF51AFD7ED558CCDL;
    mixed = (mixed ^ mixed >>> 33) * 0xC4CEB9FE1A85EC53L;
    return mixed ^ mixed >>> 33;
  }

  private static long text(UTF8String text) {
    return XXH64.hashUnsafeBytes(text.getBaseObject(), text.getBaseOffset(), text.numBytes(), SEED);
  }

  private static long bytes(byte[] bytes) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, SEED);
  }

  private static Value value(StructField field, int at) {
    DataType type = field.dataType();
    if (type instanceof BooleanType) {
      return (row, ordinal) -> row.getBoolean(ordinal) ? 1 : 0;
    }
    if (type instanceof ByteType) {
      return SpecializedGetters::getByte;
    }
    if (type instanceof ShortType) {
      return SpecializedGetters::getShort;
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return SpecializedGetters::getInt;
    }
    if (isLong(type)) {
      return SpecializedGetters::getLong;
    }
    if (type instanceof FloatType) {
      return (row, ordinal) -> Float.floatToIntBits(row.getFloat(ordinal));
    }
    if (type instanceof DoubleType) {
      return (row, ordinal) -> Double.doubleToLongBits(row.getDouble(ordinal));
    }
    if (type instanceof StringType) {
      return (row, ordinal) -> text(row.getUTF8String(ordinal));
    }
    if (type instanceof BinaryType) {
      return (row, ordinal) -> bytes(row.getBinary(ordinal));
    }
    if (type instanceof DecimalType decimal) {
      int precision = decimal.precision();
      int scale = decimal.scale();
      return precision <= Decimal.MAX_LONG_DIGITS()
          ? (row, ordinal) -> row.getDecimal(ordinal, precision, scale).toUnscaledLong()
          : (row, ordinal) -> bytes(
              row.getDecimal(ordinal, precision, scale).toJavaBigDecimal().unscaledValue().toByteArray());
    }
    List<Expression> values = List.of(new BoundReference(at, type, field.nullable()));
    UnsafeProjection unsafe = UnsafeProjection.create(CollectionConverters.asScala(values).toSeq());
    return (row, ordinal) -> {
      UnsafeRow value = unsafe.apply((InternalRow) row);
      return XXH64.hashUnsafeBytes(
          value.getBaseObject(), value.getBaseOffset(), value.getSizeInBytes(), SEED);
    };
  }
}
