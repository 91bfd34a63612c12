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
 * A type of rows, and how these lie in a state: as they are, or as PackedRows if the schema
 * that Spark keeps of a state has no form for the type.
 *
 * <p>It has none for VARIANT, for intervals, and for a MAP whose keys are no texts.
 */
final class StateType {
  private final StructType type;
  /** Null if the rows lie as they are. */
  private final PackedRow packed;

  private StateType(StructType type) {
    this.type = type;
    packed = Try.apply(() -> SchemaConverters.toAvroTypeWithDefaults(type)).isFailure()
        ? new PackedRow(type) : null;
  }

  static StateType of(StructType type) {
    return new StateType(type);
  }

  /** Returns that of the rows whose one column is a key of that {@code type}. */
  static StateType ofKey(DataType type) {
    return new StateType(new StructType().add("key", type));
  }

  StructType type() {
    return type;
  }

  boolean isPacked() {
    return packed != null;
  }

  /** Returns the type of what lies in the state. */
  DataType stored() {
    return packed == null ? type : DataTypes.BinaryType;
  }

  /** Returns the expression of what lies in the state for the {@code row}, an expression of the type. */
  Expression written(Expression row) {
    return packed == null ? row : packed.packed(row);
  }

  /**
   * Returns the expression of the InternalRow for what lies in the state, an expression of {@code stored}.
   */
  Expression read(Expression stored) {
    return UnconvertedRow.expression(packed == null ? stored : packed.unpacked(stored));
  }

  /** Returns the expression of what lies in the state for a {@code key}. */
  Expression writtenKey(Expression key) {
    return packed == null ? key : packed.packed(KeyedRows.row("key", key));
  }

  /** Returns the attribute of what lies in the state for a {@code key}: itself, if that is its value. */
  Attribute storedKey(Attribute key) {
    return packed == null ? key : KeyedRows.alias(writtenKey(key), key.name()).toAttribute();
  }

  /** Returns the {@code key} as a column of what lies in the state for it, its {@code storedKey}. */
  NamedExpression readKey(Attribute stored, Attribute key) {
    if (packed == null) {
      return key;
    }
    Expression value = new GetStructField(packed.unpacked(stored), 0, Option.empty());
    return new Alias(value, key.name(), key.exprId(),
        key.qualifier(), new Some<>(key.metadata()), KeyedRows.seq(List.of()));
  }
}
