package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.encoders.RowEncoder;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.InsertMapSortExpression$;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState$;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructType;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keyed rows of a plan: the input and output of a stateful operator.
 *
 * <p>Keys and rows are Spark's internal rows. Rows of the public API would be converted column by column,
 * which costs more than the operator itself, and their date and time classes cannot represent every value.
 */
final class KeyedRows {
  private KeyedRows() {}

  /**
   * Returns a plan of the rows that the processor emits, with the columns {@code output}, by name and id.
   *
   * <p>The processor receives all rows of a key in a batch together, in no particular order, with the columns
   * of {@code child}.
   */
  static LogicalPlan transformed(
      LogicalPlan child, List<Expression> keys, List<Attribute> output,
      ExpiringProcessor processor) {
    List<Attribute> columns = CollectionConverters.asJava(child.output());
    List<Expression> normalized = keys.stream().map(KeyedRows::normalized).toList();
    return transformed(child, normalized, columns, UnaryOperator.identity(), output, processor);
  }

  /**
   * Returns such a plan for a processor that receives only the {@code columns} of the child, as an
   * UnconvertedRow, by keys that are already normalized.
   */
  static LogicalPlan transformedUnconverted(
      LogicalPlan child, List<Expression> keys, List<Attribute> columns, List<Attribute> output,
      ExpiringProcessor processor) {
    return transformed(child, keys, columns, UnconvertedRow::expression, output, processor);
  }

  private static LogicalPlan transformed(
      LogicalPlan child, List<Expression> keys,
      List<Attribute> columns, UnaryOperator<Expression> row, List<Attribute> output,
      ExpiringProcessor processor) {
    List<NamedExpression> shuffled = new ArrayList<>();
    List<Attribute> dataColumns = new ArrayList<>(), keyColumns = new ArrayList<>();
    for (Attribute column : columns) {
      NamedExpression data = withoutWatermark(column);
      shuffled.add(data);
      dataColumns.add(data.toAttribute());
    }
    for (int position = 0; position < keys.size(); position++) {
      // Named by position, because column names are part of the state schema and may change between two
      // starts.
      Expression value = keys.get(position);
      Alias key = alias(StateType.ofKey(value.dataType()).writtenKey(value), "key" + position);
      shuffled.add(key);
      keyColumns.add(key.toAttribute());
    }
    LogicalPlan keyed = new Project(seq(shuffled), child);
    CreateNamedStruct key = struct(keyColumns), data = struct(dataColumns);
    StructType type = struct(output).dataType();
    Attribute given = attribute("row", type);
    LogicalPlan planned =
        TransformWithState$.MODULE$.apply(
            seq(keyColumns), seq(dataColumns), publicly(processor),
            processor.timers(), OutputMode.Append(), keyed,
            rowEncoder(key.dataType()), rowEncoder(data.dataType()), rowEncoder(type));
    TransformWithState plan = (TransformWithState) ((SerializeFromObject) planned).child();
    LogicalPlan transformed =
        plan.copy(
            key, row.apply(data), plan.groupingAttributes(),
            plan.dataAttributes(), plan.statefulProcessor(), plan.timeMode(),
            plan.outputMode(), internalEncoder(key.dataType()), given, plan.child(), plan.hasInitialState(),
            plan.initialStateGroupingAttrs(), plan.initialStateDataAttrs(), plan.initialStateDeserializer(),
            plan.initialState());
    return new Project(seq(fields(given, output)), transformed);
  }

  /**
   * Returns a column without its watermark. With event-time timers, Spark would drop rows that are later than
   * the watermark, including retractions.
   */
  private static NamedExpression withoutWatermark(NamedExpression column) {
    if (!column.metadata().contains(EntryTimes.WATERMARK)) {
      return column;
    }
    Metadata plain = new MetadataBuilder().withMetadata(column.metadata())
        .remove(EntryTimes.WATERMARK).build();
    return new Alias(
        column.toAttribute(), column.name(), NamedExpression.newExprId(),
        seq(List.of()), new Some<>(plain), seq(List.of()));
  }

  /** Returns {@code child} with an ArrivalNumber as an additional last column. */
  static LogicalPlan numbered(LogicalPlan child) {
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(child.output()));
    columns.add(alias(ArrivalNumber.expression(), "arrival"));
    return new Project(seq(columns), child);
  }

  /**
   * Returns the state encoder of rows whose columns have these {@code types}. Spark writes and reads the rows
   * with generated code, under generated column names. They are PackedRows if the state schema does not
   * support a type.
   */
  static Encoder<InternalRow> stateEncoder(List<DataType> types) {
    StructType type = new StructType();
    for (int position = 0; position < types.size(); position++) {
      type = type.add("column" + position, types.get(position));
    }
    StateType kept = StateType.of(type);
    return kept.isPacked() ? structEncoder(kept) : internally(internalEncoder(type));
  }

  /**
   * Returns the state encoder of rows of a {@code type}. Each row is stored as one column and read as an
   * UnconvertedRow.
   */
  static Encoder<InternalRow> structEncoder(StructType type) {
    return structEncoder(StateType.of(type));
  }

  private static Encoder<InternalRow> structEncoder(StateType kept) {
    StructType stored = new StructType().add("row", kept.stored());
    Expression written = row("row", kept.written(new BoundReference(0, kept.type(), false)));
    Expression read = kept.read(new BoundReference(0, kept.stored(), true));
    return internally(new ExpressionEncoder<>(rowEncoder(stored).encoder(), written, read));
  }

  static List<NamedExpression> fields(Attribute row, List<Attribute> columns) {
    List<NamedExpression> fields = new ArrayList<>();
    for (int position = 0; position < columns.size(); position++) {
      Attribute column = columns.get(position);
      Expression field = new GetStructField(row, position, new Some<>(column.name()));
      fields.add(
          new Alias(field, column.name(), column.exprId(),
              column.qualifier(), new Some<>(column.metadata()), seq(List.of())));
    }
    return fields;
  }

  /**
   * Returns the same value for all values that are equal in SQL: 0.0 and -0.0, all NaNs, and maps that differ
   * only in the order of their entries.
   */
  static Expression normalized(Expression key) {
    Expression sorted =
        InsertMapSortExpression$.MODULE$.mapTypeExistsRecursively(key)
            ? InsertMapSortExpression$.MODULE$.insertMapSortRecursively(key)
            : key;
    return NormalizeFloatingNumbers$.MODULE$.normalize(sorted);
  }

  /** Returns a row with a single column. */
  static CreateNamedStruct row(String name, Expression value) {
    return new CreateNamedStruct(seq(List.of(Literal$.MODULE$.apply(name), value)));
  }

  static CreateNamedStruct struct(List<Attribute> columns) {
    List<Expression> parts = new ArrayList<>();
    for (Attribute column : columns) {
      parts.add(Literal$.MODULE$.apply(column.name()));
      parts.add(column);
    }
    return new CreateNamedStruct(seq(parts));
  }

  private static ExpressionEncoder<Row> rowEncoder(StructType type) {
    return ExpressionEncoder.apply(type);
  }

  /** Returns the encoder of rows of this type that accepts and returns internal rows. */
  @SuppressWarnings("unchecked")
  private static ExpressionEncoder<Object> internalEncoder(StructType type) {
    List<Expression> written = new ArrayList<>(), read = new ArrayList<>();
    for (int position = 0; position < type.size(); position++) {
      Expression name = Literal$.MODULE$.apply(type.apply(position).name());
      written.addAll(
          List.of(name, new GetStructField(new BoundReference(0, type, false),
              position, scala.Option.empty())));
      read.addAll(List.of(name, new BoundReference(position, type.apply(position).dataType(), true)));
    }
    ExpressionEncoder<?> internal =
        new ExpressionEncoder<>(
            rowEncoder(type).encoder(), new CreateNamedStruct(seq(written)),
            new CreateNamedStruct(seq(read)));
    return (ExpressionEncoder<Object>) internal;
  }

  @SuppressWarnings("unchecked")
  private static Encoder<InternalRow> internally(ExpressionEncoder<?> encoder) {
    return (Encoder<InternalRow>) encoder;
  }

  @SuppressWarnings("unchecked")
  private static StatefulProcessor<Row, Row, Row> publicly(StatefulProcessor<?, ?, ?> processor) {
    return (StatefulProcessor<Row, Row, Row>) processor;
  }

  static Attribute attribute(String name, StructType type) {
    return new AttributeReference(name, type,
        false, Metadata.empty(), NamedExpression.newExprId(), seq(List.of()));
  }

  static Alias alias(Expression value, String name) {
    return new Alias(value, name, NamedExpression.newExprId(),
        seq(List.of()), scala.Option.empty(), seq(List.of()));
  }

  static <T> Seq<T> seq(List<? extends T> items) {
    return CollectionConverters.<T>asScala(new ArrayList<T>(items)).toSeq();
  }
}
