package freshtable.functions;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.catalyst.JavaTypeInference;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.encoders.package$;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.aggregate.ScalaAggregator;
import org.apache.spark.sql.expressions.Aggregator;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Builds the call expression of a typed aggregate, in which the argument is cast to the input type. */
final class TypedCall extends AbstractFunction1<Seq<Expression>, Expression> {
  private final String name;
  private final TypedAggregate aggregate;
  private final DataType input;
  private final ExpressionEncoder<Object> inputEncoder;
  private final ExpressionEncoder<Object> bufferEncoder;
  private final boolean deterministic;

  @SuppressWarnings("unchecked")
  TypedCall(
      String name, TypedAggregate aggregate, DataType input, Class<?> inputClass, boolean deterministic) {
    this.name = name;
    this.aggregate = aggregate;
    this.input = input;
    this.inputEncoder = (ExpressionEncoder<Object>) ExpressionEncoder.apply(
        JavaTypeInference.encoderFor(inputClass));
    this.bufferEncoder = encoder(aggregate.bufferEncoder());
    this.deterministic = deterministic;
  }

  @Override
  public Expression apply(Seq<Expression> arguments) {
    if (arguments.size() != 1) {
      throw ScalarCall.<RuntimeException>wrongCount(name, List.of(1), arguments.size());
    }
    Expression argument = Cast$.MODULE$.apply(arguments.apply(0), input, true);
    return new ScalaAggregator<>(
        CollectionConverters.asScala(List.of(argument)).toSeq(),
        aggregate,
        inputEncoder,
        bufferEncoder,
        true,
        deterministic,
        0,
        0,
        Option.apply(name));
  }

  /** Returns the result type of an aggregate. */
  static DataType returned(Aggregator<?, ?, ?> aggregate) {
    return encoder(aggregate.outputEncoder()).objSerializer().dataType();
  }

  /** Returns the buffer class of an aggregate. */
  static Class<?> buffer(Aggregator<?, ?, ?> aggregate) {
    return encoder(aggregate.bufferEncoder()).clsTag().runtimeClass();
  }

  /** Returns the declared input type, or null if it is not visible to Java, such as Scala's Long. */
  static Type input(Class<?> type) {
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      Type parent = each.getGenericSuperclass();
      if (parent instanceof ParameterizedType
          && ((ParameterizedType) parent).getRawType() == Aggregator.class) {
        return ((ParameterizedType) parent).getActualTypeArguments()[0];
      }
    }
    return null;
  }

  private static <T> ExpressionEncoder<T> encoder(Encoder<T> encoder) {
    return package$.MODULE$.encoderFor(encoder);
  }
}
