package freshtable.operators;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Packs rows of a type into one BINARY value. Equal normalized rows have equal bytes. */
public final class PackedRow implements Serializable {
  private static final long serialVersionUID = 1L;
  private final StructType type;
  /** One per thread, because the generated writer has a buffer. */
  private transient ThreadLocal<UnsafeProjection> written;

  PackedRow(StructType type) {
    this.type = type;
  }

  /** Returns the expression that packs {@code row}, an expression of the type. */
  Expression packed(Expression row) {
    return invoke("pack", DataTypes.BinaryType, row);
  }

  /** Returns the expression that unpacks {@code bytes}. */
  Expression unpacked(Expression bytes) {
    return invoke("unpack", type, bytes);
  }

  /** Returns the bytes of a row. Called by generated code. */
  public byte[] pack(InternalRow row) {
    return projection().apply(row).getBytes();
  }

  /** Returns the row with these bytes. Called by generated code. */
  public InternalRow unpack(byte[] bytes) {
    UnsafeRow row = new UnsafeRow(type.size());
    row.pointTo(bytes, bytes.length);
    return row;
  }

  private UnsafeProjection projection() {
    ThreadLocal<UnsafeProjection> known;
    synchronized (this) {
      if (written == null) {
        written = ThreadLocal.withInitial(() -> UnsafeProjection.create(type));
      }
      known = written;
    }
    return known.get();
  }

  private Expression invoke(String method, DataType result, Expression argument) {
    return new Invoke(
        Literal.fromObject(this), method, result, KeyedRows.seq(List.of(argument)),
        KeyedRows.<AbstractDataType>seq(List.of()), true, false, true);
  }
}
