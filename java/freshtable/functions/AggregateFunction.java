package freshtable.functions;

import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.expressions.MutableAggregationBuffer;
import org.apache.spark.sql.expressions.UserDefinedAggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** An aggregate of a user's class, which the JVM that calls it loads from the function's own jars. */
@SuppressWarnings("deprecation")
final class AggregateFunction extends UserDefinedAggregateFunction {
  private static final long serialVersionUID = 1L;

  private final List<String> jars;
  private final String className;
  private final boolean deterministic;
  private transient volatile UserDefinedAggregateFunction target;

  AggregateFunction(List<String> jars, String className, boolean deterministic) {
    this.jars = jars;
    this.className = className;
    this.deterministic = deterministic;
  }

  private UserDefinedAggregateFunction target() {
    UserDefinedAggregateFunction found = target;
    if (found == null) {
      try {
        found = (UserDefinedAggregateFunction) UserClasses.instance(jars, className);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
      target = found;
    }
    return found;
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
