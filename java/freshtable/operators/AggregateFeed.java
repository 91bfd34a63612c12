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
 * Aggregate functions that see the same rows: each row of a group, or those which a map
 * with their counts lets through.
 *
 * <p>A map is kept for DISTINCT, and for functions that cannot take back a row of an updating input:
 * if one is taken out, they are computed again from the map.
 */
final class AggregateFeed implements Serializable {
  private static final long serialVersionUID = 1L;

  /** What a row of the inputs has at the end if the input updates: whether it comes into the result. */
  static final String ADDS = "adds";

  private final Attribute[] inputs;
  private final AggregateExpression[] functions;
  private final NamedExpression[] results;
  private final Attribute[] columns;
  private final Attribute filter;
  private final Counting counting;

  /** Which rows of a map the functions see. */
  enum Counting {
    /** There is no map: all rows. */
    NONE,
    /** Each once, when it comes first; and once more, to take it back, when the last one goes. */
    FIRST_AND_LAST,
    /** Each once; all that are left are seen again after one has gone. */
    DISTINCT_AGAIN,
    /** As often as it came; all that are left are seen again after one has gone. */
    ALL_AGAIN
  }

  /** {@code columns} are those of the map, and {@code filter} says which rows it takes; null for all. */
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

  /** Returns whether the results depend on the form of the buffers, which storing them may change. */
  boolean isSensitive() {
    for (AggregateExpression function : functions) {
      if (!(function.aggregateFunction() instanceof DeclarativeAggregate)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Returns the code of the functions; in rows of {@code stored} columns their buffers begin
   * at {@code offset}.
   */
  AggregateCode compiled(List<Attribute> stored, int offset) {
    return new AggregateCode(List.of(inputs), functions(), results(), stored, offset);
  }
}
