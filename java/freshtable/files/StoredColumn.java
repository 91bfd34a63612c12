package freshtable.files;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DateLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.StringLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * A column of a Parquet file, found by Iceberg's field id. Its values are read in the form of Spark's
 * internal rows.
 */
final class StoredColumn {
  /** The maximum precision of a decimal that fits into a long. */
  private static final int MOST_DIGITS = 18;

  private final DataType type;
  private final PrimitiveType stored;
  private final ColumnDescriptor descriptor;

  private StoredColumn(DataType type, PrimitiveType stored, ColumnDescriptor descriptor) {
    this.type = type;
    this.stored = stored;
    this.descriptor = descriptor;
  }

  /**
   * Returns the column of a file, or null if the file does not have the id or stores the column differently
   * from current Iceberg.
   */
  static StoredColumn of(MessageType file, int id, DataType type) {
    for (Type field : file.getFields()) {
      if (field.getId() != null && field.getId().intValue() == id) {
        if (!field.isPrimitive() || field.isRepetition(Type.Repetition.REPEATED)) {
          return null;
        }
        PrimitiveType primitive = field.asPrimitiveType();
        return holds(primitive, type)
            ? new StoredColumn(type, primitive, file.getColumnDescription(new String[] {field.getName()}))
            : null;
      }
    }
    return null;
  }

  /**
   * Returns the columns of a file with these ids, or null if one of them is missing or stored differently
   * from current Iceberg.
   */
  static List<StoredColumn> all(MessageType file, int[] ids, StructType columns) {
    List<StoredColumn> all = new ArrayList<>();
    for (int column = 0; column < ids.length; column++) {
      StoredColumn each = of(file, ids[column], columns.apply(column).dataType());
      if (each == null) {
        return null;
      }
      all.add(each);
    }
    return all;
  }

  PrimitiveType stored() {
    return stored;
  }

  ColumnDescriptor descriptor() {
    return descriptor;
  }

  DataType type() {
    return type;
  }

  /** Returns whether values are numbers that are equal exactly if their {@link #bits} are equal. */
  boolean isNumber() {
    return isFixed() && !(type instanceof FloatType || type instanceof DoubleType);
  }

  /**
   * Returns whether values have a fixed length and are returned by {@link #bits}. If not, they are objects.
   */
  boolean isFixed() {
    return !(isText() || type instanceof BinaryType
        || type instanceof DecimalType decimal && decimal.precision() > MOST_DIGITS);
  }

  boolean isText() {
    return DataTypes.StringType.equals(type);
  }

  long bits(ColumnVector values, int row) {
    if (type instanceof DecimalType decimal) {
      return values.getDecimal(row, decimal.precision(), decimal.scale()).toUnscaledLong();
    }
    return switch (stored.getPrimitiveTypeName()) {
      case INT32 -> values.getInt(row);
      case BOOLEAN -> values.getBoolean(row) ? 1 : 0;
      case FLOAT -> Float.floatToRawIntBits(values.getFloat(row));
      case DOUBLE -> Double.doubleToRawLongBits(values.getDouble(row));
      default -> values.getLong(row);
    };
  }

  /** Returns a variable-length value as a new object with value equality. */
  Object object(ColumnVector values, int row) {
    if (isText()) {
      return values.getUTF8String(row).clone();
    }
    return type instanceof DecimalType decimal
        ? values.getDecimal(row, decimal.precision(), decimal.scale())
        : ByteBuffer.wrap(values.getBinary(row));
  }

  /** Returns a value in the form of Spark's internal rows, or null for NULL. */
  Object value(ColumnVector values, int row) {
    if (values.isNullAt(row)) {
      return null;
    }
    return isFixed() ? value(bits(values, row)) : value(object(values, row));
  }

  /** Returns the value encoded by {@code bits}. */
  Object value(long bits) {
    if (type instanceof DecimalType decimal) {
      return Decimal.createUnsafe(bits, decimal.precision(), decimal.scale());
    }
    return switch (stored.getPrimitiveTypeName()) {
      case INT32 -> (Object) (int) bits;
      case BOOLEAN -> bits != 0;
      case FLOAT -> Float.intBitsToFloat((int) bits);
      case DOUBLE -> Double.longBitsToDouble(bits);
      default -> bits;
    };
  }

  /** Returns the value represented by {@code object}. */
  Object value(Object object) {
    return object instanceof ByteBuffer bytes ? bytes.array() : object;
  }

  private static boolean holds(PrimitiveType stored, DataType type) {
    LogicalTypeAnnotation as = stored.getLogicalTypeAnnotation();
    PrimitiveTypeName name = stored.getPrimitiveTypeName();
    if (type instanceof DecimalType decimal) {
      return as instanceof DecimalLogicalTypeAnnotation written
          && written.getPrecision() == decimal.precision()
          && written.getScale() == decimal.scale();
    }
    if (type instanceof IntegerType || type instanceof LongType) {
      int width = type instanceof IntegerType ? 32 : 64;
      return name == (width == 32 ? PrimitiveTypeName.INT32 : PrimitiveTypeName.INT64)
          && (as == null || as instanceof IntLogicalTypeAnnotation number
              && number.isSigned() && number.getBitWidth() == width);
    }
    if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      return name == PrimitiveTypeName.INT64
          && as instanceof TimestampLogicalTypeAnnotation instant
          && instant.getUnit() == TimeUnit.MICROS
          && instant.isAdjustedToUTC() == type instanceof TimestampType;
    }
    if (type instanceof DateType) {
      return name == PrimitiveTypeName.INT32 && as instanceof DateLogicalTypeAnnotation;
    }
    if (DataTypes.StringType.equals(type)) {
      return name == PrimitiveTypeName.BINARY && as instanceof StringLogicalTypeAnnotation;
    }
    return as == null
        && (type instanceof BooleanType && name == PrimitiveTypeName.BOOLEAN
            || type instanceof FloatType && name == PrimitiveTypeName.FLOAT
            || type instanceof DoubleType && name == PrimitiveTypeName.DOUBLE
            || type instanceof BinaryType && name == PrimitiveTypeName.BINARY);
  }
}
