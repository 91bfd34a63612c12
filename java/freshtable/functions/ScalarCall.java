package freshtable.functions;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.internal.ToScalaUDF$;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Builds the call expression of a scalar function, in which arguments are cast to the parameter types. */
final class ScalarCall extends AbstractFunction1<Seq<Expression>, Expression> {
  private final String name;
  private final ScalarFunction function;
  private final DataType returned;
  private final List<List<DataType>> signatures;
  private final boolean deterministic;

  ScalarCall(
      String name, ScalarFunction function, DataType returned,
      List<List<DataType>> signatures, boolean deterministic) {
    this.name = name;
    this.function = function;
    this.returned = returned;
    this.signatures = signatures;
    this.deterministic = deterministic;
  }

  @Override
  public Expression apply(Seq<Expression> arguments) {
    List<Object> counts = new ArrayList<>();
    for (List<DataType> signature : signatures) {
      counts.add(signature.size());
      if (signature.size() == arguments.size()) {
        return call(arguments, signature);
      }
    }
    throw ScalarCall.<RuntimeException>wrongCount(name, counts, arguments.size());
  }

  /** Throws Spark's error for a call with a number of arguments that is not in {@code counts}. */
  static <E extends Throwable> E wrongCount(String name, List<Object> counts, int count) throws E {
    throw ScalarCall.<E>unchecked(QueryCompilationErrors.wrongNumArgsError(
        name,
        CollectionConverters.asScala(counts).toSeq(),
        count,
        QueryCompilationErrors.wrongNumArgsError$default$4(),
        QueryCompilationErrors.wrongNumArgsError$default$5(),
        QueryCompilationErrors.wrongNumArgsError$default$6()));
  }

  /** Throws Spark's checked error unchanged. Spark's analyzer expects it, although no method declares it. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  static Class<?> interfaceOf(int arity) {
    try {
      return Class.forName("org.apache.spark.sql.api.java.UDF" + arity);
    } catch (ClassNotFoundException error) {
      throw new IllegalStateException(error);
    }
  }

  private Expression call(Seq<Expression> arguments, List<DataType> types) {
    List<Expression> converted = new ArrayList<>();
    for (int index = 0; index < types.size(); index++) {
      Expression argument = arguments.apply(index);
      converted.add(types.get(index) == null
          ? argument : Cast$.MODULE$.apply(argument, types.get(index), true));
    }
    Seq<Expression> children = CollectionConverters.asScala(converted).toSeq();
    return new ScalaUDF(
        scalaFunction(types.size()),
        returned,
        children,
        CollectionConverters.asScala(
            List.<Option<org.apache.spark.sql.catalyst.encoders.ExpressionEncoder<?>>>of())
            .toSeq(),
        Option.empty(),
        Option.apply(name),
        true,
        deterministic);
  }

  private Object scalaFunction(int arity) {
    try {
      return ToScalaUDF$.class.getMethod("apply", interfaceOf(arity)).invoke(ToScalaUDF$.MODULE$, function);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }
}
