package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Some;
import scala.util.Try;

/**
 * A row type and its representation in a state. Rows are stored unchanged, or as PackedRows if Spark's state
 * schema does not support their type.
 *
 * <p>The state schema does not support VARIANT, intervals, and MAPs whose keys are not strings.
 */
final class StateType {
  private final StructType type;
  /** Null if rows are stored unchanged. */
  private final PackedRow packed;

  private StateType(StructType type) {
    this.type = type;
    packed = Try.apply(() -> SchemaConverters.toAvroTypeWithDefaults(type)).isFailure()
        ? new PackedRow(type) : null;
  }

  static StateType of(StructType type) {
    return new StateType(type);
  }

  /** Returns the type of rows with a single column, a key of this {@code type}. */
  static StateType ofKey(DataType type) {
    return new StateType(new StructType().add("key", type));
  }

  StructType type() {
    return type;
  }

  boolean isPacked() {
    return packed != null;
  }

  /** Returns the stored type. */
  DataType stored() {
    return packed == null ? type : DataTypes.BinaryType;
  }

  /** Returns the expression that converts {@code row}, an expression of the type, to its stored form. */
  Expression written(Expression row) {
    return packed == null ? row : packed.packed(row);
  }

  /** Returns the expression that converts {@code stored} to an InternalRow. */
  Expression read(Expression stored) {
    return UnconvertedRow.expression(packed == null ? stored : packed.unpacked(stored));
  }

  /** Returns the expression that converts {@code key} to its stored form. */
  Expression writtenKey(Expression key) {
    return packed == null ? key : packed.packed(KeyedRows.row("key", key));
  }

  /**
   * Returns the attribute of the stored form of {@code key}, which is the key itself if it is stored
   * unchanged.
   */
  Attribute storedKey(Attribute key) {
    return packed == null ? key : KeyedRows.alias(writtenKey(key), key.name()).toAttribute();
  }

  /** Returns {@code key} as a column computed from {@code stored}, which is its {@code storedKey}. */
  NamedExpression readKey(Attribute stored, Attribute key) {
    if (packed == null) {
      return key;
    }
    Expression value = new GetStructField(packed.unpacked(stored), 0, Option.empty());
    return new Alias(value, key.name(), key.exprId(),
        key.qualifier(), new Some<>(key.metadata()), KeyedRows.seq(List.of()));
  }
}
