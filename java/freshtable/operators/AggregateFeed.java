package freshtable.operators;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.types.DataType;

/**
 * Aggregate functions with the same input: all rows of a group, or the rows of a map with row counts.
 *
 * <p>A map is needed for DISTINCT, and for functions that cannot retract a row if the input has updates.
 * After a retraction, these functions are recomputed from the map.
 */
final class AggregateFeed implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The name of the last input column if the input has updates: whether the row is added. */
  static final String ADDS = "adds";

  private final Attribute[] inputs;
  private final AggregateExpression[] functions;
  private final NamedExpression[] results;
  private final Attribute[] columns;
  private final Attribute filter;
  private final Counting counting;

  /** The rows of the map that the functions receive. */
  enum Counting {
    /** There is no map. The functions receive all rows. */
    NONE,
    /** Each distinct row once: it is added with its first copy, and retracted with its last copy. */
    FIRST_AND_LAST,
    /** Each distinct row once. After a retraction, the functions receive all remaining rows again. */
    DISTINCT_AGAIN,
    /**
     * Each row as often as it was added. After a retraction, the functions receive all remaining rows again.
     */
    ALL_AGAIN
  }

  /**
   * {@code columns} are the columns of the map. Only rows for which {@code filter} is true, or all rows if it
   * is null, are added to the map.
   */
  AggregateFeed(
      List<Attribute> inputs, List<AggregateExpression> functions,
      List<NamedExpression> results, List<Attribute> columns,
      Attribute filter, Counting counting) {
    this.inputs = inputs.toArray(Attribute[]::new);
    this.functions = functions.toArray(AggregateExpression[]::new);
    this.results = results.toArray(NamedExpression[]::new);
    this.columns = columns.toArray(Attribute[]::new);
    this.filter = filter;
    this.counting = counting;
  }

  List<AggregateExpression> functions() {
    return List.of(functions);
  }

  List<NamedExpression> results() {
    return List.of(results);
  }

  List<Attribute> columns() {
    return List.of(columns);
  }

  Attribute filter() {
    return filter;
  }

  Counting counting() {
    return counting;
  }

  boolean hasMap() {
    return counting != Counting.NONE;
  }

  List<DataType> stateTypes() {
    return AggregateCode.types(functions());
  }

  List<DataType> mapTypes() {
    List<DataType> types = new ArrayList<>();
    columns().forEach(column -> types.add(column.dataType()));
    return types;
  }

  /** Returns whether results depend on the representation of the buffers, which storing them may change. */
  boolean isSensitive() {
    for (AggregateExpression function : functions) {
      if (!(function.aggregateFunction() instanceof DeclarativeAggregate)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Returns the code of the functions. Rows with the columns {@code stored} contain their buffers from
   * {@code offset} on.
   */
  AggregateCode compiled(List<Attribute> stored, int offset) {
    return new AggregateCode(List.of(inputs), functions(), results(), stored, offset);
  }
}
