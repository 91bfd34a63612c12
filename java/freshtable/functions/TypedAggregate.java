package freshtable.functions;

import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.expressions.Aggregator;

/** A typed aggregate of a user's class, which the JVM that calls it loads from the function's own jars. */
@SuppressWarnings("unchecked")
final class TypedAggregate extends Aggregator<Object, Object, Object> {
  private static final long serialVersionUID = 1L;

  private final List<String> jars;
  private final String className;
  private transient volatile Aggregator<Object, Object, Object> target;

  TypedAggregate(List<String> jars, String className) {
    this.jars = jars;
    this.className = className;
  }

  private Aggregator<Object, Object, Object> target() {
    Aggregator<Object, Object, Object> found = target;
    if (found == null) {
      try {
        found = (Aggregator<Object, Object, Object>) UserClasses.instance(jars, className);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
      target = found;
    }
    return found;
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
