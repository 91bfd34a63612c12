package freshtable.functions;

import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.expressions.MutableAggregationBuffer;
import org.apache.spark.sql.expressions.UserDefinedAggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** An aggregate of a user's class, loaded from the function's own jars in each JVM that calls it. */
@SuppressWarnings("deprecation")
final class AggregateFunction extends UserDefinedAggregateFunction {
  private static final long serialVersionUID = 1L;

  private final OfTask<UserDefinedAggregateFunction> target;
  private final boolean deterministic;

  AggregateFunction(List<String> jars, String className, boolean deterministic) {
    this.target = new OfTask<>(jars, className);
    this.deterministic = deterministic;
  }

  private UserDefinedAggregateFunction target() {
    return target.object();
  }

  @Override
  public StructType inputSchema() {
    return target().inputSchema();
  }

  @Override
  public StructType bufferSchema() {
    return target().bufferSchema();
  }

  @Override
  public DataType dataType() {
    return target().dataType();
  }

  @Override
  public boolean deterministic() {
    return deterministic && target().deterministic();
  }

  @Override
  public void initialize(MutableAggregationBuffer buffer) {
    target().initialize(buffer);
  }

  @Override
  public void update(MutableAggregationBuffer buffer, Row input) {
    target().update(buffer, input);
  }

  @Override
  public void merge(MutableAggregationBuffer buffer, Row other) {
    target().merge(buffer, other);
  }

  @Override
  public Object evaluate(Row buffer) {
    return target().evaluate(buffer);
  }
}
