package freshtable.functions;

import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.expressions.Aggregator;

/** A typed aggregate of a user's class, loaded from the function's own jars in each JVM that calls it. */
final class TypedAggregate extends Aggregator<Object, Object, Object> {
  private static final long serialVersionUID = 1L;

  private final OfTask<Aggregator<Object, Object, Object>> target;

  TypedAggregate(List<String> jars, String className) {
    this.target = new OfTask<>(jars, className);
  }

  private Aggregator<Object, Object, Object> target() {
    return target.object();
  }

  @Override
  public Object zero() {
    return target().zero();
  }

  @Override
  public Object reduce(Object buffer, Object input) {
    return target().reduce(buffer, input);
  }

  @Override
  public Object merge(Object buffer, Object other) {
    return target().merge(buffer, other);
  }

  @Override
  public Object finish(Object buffer) {
    return target().finish(buffer);
  }

  @Override
  public Encoder<Object> bufferEncoder() {
    return target().bufferEncoder();
  }

  @Override
  public Encoder<Object> outputEncoder() {
    return target().outputEncoder();
  }
}
