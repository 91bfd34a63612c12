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
 * The code of aggregate functions of Spark: it changes, stores and evaluates buffers,
 * a row of them for each group.
 *
 * <p>Spark's own iterator compiles it, so that each function does what it does in a batch;
 * we only decide when.
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
   * {@code stored} are the attributes of rows that are merged, in which the buffers of these
   * {@code functions} begin at {@code offset}; the {@code results} are computed from those of the functions.
   */
  AggregateCode(
      List<Attribute> inputs, List<AggregateExpression> functions,
      List<NamedExpression> results, List<Attribute> stored,
      int offset) {
    types = KeyedRows.seq(types(functions));
    updating = compiled(inputs, in(Partial$.MODULE$, functions), List.of(), 0);
    merging = compiled(stored, in(Final$.MODULE$, functions), results, offset);
  }

  /** Returns the types of the columns in which the buffers of those functions are stored. */
  static List<DataType> types(List<AggregateExpression> functions) {
    List<DataType> types = new ArrayList<>();
    stored(functions).forEach(column -> types.add(column.dataType()));
    return types;
  }

  /** Returns the attributes under which those functions read what they have stored. */
  static List<Attribute> stored(List<AggregateExpression> functions) {
    List<Attribute> columns = new ArrayList<>();
    functions.forEach(
        each -> columns.addAll(CollectionConverters.asJava(
            each.aggregateFunction().inputAggBufferAttributes())));
    return columns;
  }

  /** Returns the buffers of a new group. */
  InternalRow begun() {
    InternalRow buffers = new SpecificInternalRow(types);
    clear(buffers);
    return buffers;
  }

  /** Makes those of a group into those of a new one. */
  void clear(InternalRow buffers) {
    updating.initializeBuffer(buffers);
  }

  /** Adds a row of the inputs to a group. */
  void update(InternalRow buffers, InternalRow input) {
    updating.processRow().apply(buffers, input);
  }

  /** Adds to a group what was stored of it. */
  void merge(InternalRow buffers, InternalRow stored) {
    merging.processRow().apply(buffers, stored);
  }

  /** Returns the results, in a row that the next call uses again. */
  UnsafeRow results(InternalRow buffers) {
    return merging.generateOutput().apply(NO_KEY, buffers);
  }

  /**
   * Returns what is stored, in a row that the next call uses again;
   * of the buffers nothing but clear() may follow.
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

  /** Returns Spark's iterator, over no rows: only its code is used. */
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
