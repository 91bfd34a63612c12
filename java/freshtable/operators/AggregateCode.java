package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.MutableProjection$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateMode;
import org.apache.spark.sql.catalyst.expressions.aggregate.Final$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.execution.aggregate.AggregationIterator;
import org.apache.spark.sql.execution.aggregate.SortBasedAggregationIterator;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction2;

/**
 * The generated code of Spark's aggregate functions, which updates, stores and evaluates their buffers. Each
 * group has one row of buffers.
 *
 * <p>The code is compiled by Spark's own iterator, so each function behaves as in a batch. The operator only
 * decides when it runs.
 */
final class AggregateCode {
  private static final UnsafeRow NO_KEY = new UnsafeRow(0);

  static {
    NO_KEY.pointTo(new byte[8], 0);
  }

  private final Seq<DataType> types;
  private final AggregationIterator updating;
  private final AggregationIterator merging;

  /**
   * {@code stored} are the attributes of merged rows, which contain the buffers of {@code functions} from
   * {@code offset} on. {@code results} are computed from the results of the functions.
   */
  AggregateCode(
      List<Attribute> inputs, List<AggregateExpression> functions,
      List<NamedExpression> results, List<Attribute> stored,
      int offset) {
    types = KeyedRows.seq(types(functions));
    updating = compiled(inputs, in(Partial$.MODULE$, functions), List.of(), 0);
    merging = compiled(stored, in(Final$.MODULE$, functions), results, offset);
  }

  /** Returns the types of the functions' stored buffer columns. */
  static List<DataType> types(List<AggregateExpression> functions) {
    List<DataType> types = new ArrayList<>();
    stored(functions).forEach(column -> types.add(column.dataType()));
    return types;
  }

  /** Returns the attributes of the functions' stored buffer columns. */
  static List<Attribute> stored(List<AggregateExpression> functions) {
    List<Attribute> columns = new ArrayList<>();
    functions.forEach(
        each -> columns.addAll(CollectionConverters.asJava(
            each.aggregateFunction().inputAggBufferAttributes())));
    return columns;
  }

  /** Returns the initial buffers of a new group. */
  InternalRow begun() {
    InternalRow buffers = new SpecificInternalRow(types);
    clear(buffers);
    return buffers;
  }

  /** Resets the buffers to those of a new group. */
  void clear(InternalRow buffers) {
    updating.initializeBuffer(buffers);
  }

  /** Adds an input row to a group. */
  void update(InternalRow buffers, InternalRow input) {
    updating.processRow().apply(buffers, input);
  }

  /** Merges the stored buffers of a group into {@code buffers}. */
  void merge(InternalRow buffers, InternalRow stored) {
    merging.processRow().apply(buffers, stored);
  }

  /** Returns the results, in a row that the next call overwrites. */
  UnsafeRow results(InternalRow buffers) {
    return merging.generateOutput().apply(NO_KEY, buffers);
  }

  /**
   * Returns the buffers in their stored form, in a row that the next call overwrites. Afterwards, only
   * clear() may be called on the buffers.
   */
  UnsafeRow stored(InternalRow buffers) {
    return updating.generateOutput().apply(NO_KEY, buffers);
  }

  private static List<AggregateExpression> in(AggregateMode mode, List<AggregateExpression> functions) {
    List<AggregateExpression> changed = new ArrayList<>();
    for (AggregateExpression each : functions) {
      changed.add(each.copy(each.aggregateFunction(), mode, false, each.filter(), each.resultId()));
    }
    return changed;
  }

  /** Returns an iterator of Spark over no rows, which is used only for its generated code. */
  private static AggregationIterator compiled(
      List<Attribute> inputs, List<AggregateExpression> functions,
      List<NamedExpression> results, int offset) {
    return new SortBasedAggregationIterator(
        0, KeyedRows.<NamedExpression>seq(List.of()), KeyedRows.<Attribute>seq(inputs),
        scala.collection.Iterator$.MODULE$.<InternalRow>empty(), KeyedRows.seq(functions),
        KeyedRows.<Attribute>seq(functions.stream().map(AggregateExpression::resultAttribute).toList()),
        offset,
        KeyedRows.<NamedExpression>seq(results), new Projections(), new SQLMetric("sum", 0L));
  }

  private static final class Projections
      extends AbstractFunction2<Seq<Expression>, Seq<Attribute>, MutableProjection> {
    @Override
    public MutableProjection apply(Seq<Expression> expressions, Seq<Attribute> inputs) {
      return MutableProjection$.MODULE$.create(expressions, inputs);
    }
  }
}
