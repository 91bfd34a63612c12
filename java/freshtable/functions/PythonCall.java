package freshtable.functions;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Builds the call expression of a Python function, in which arguments are cast to the parameter types. */
final class PythonCall extends AbstractFunction1<Seq<Expression>, Expression> {
  private final String name;
  private final UserDefinedPythonFunction function;
  private final StructType parameters;
  private final int least;
  private final int most;

  PythonCall(String name, UserDefinedPythonFunction function, StructType parameters, int least, int most) {
    this.name = name;
    this.function = function;
    this.parameters = parameters;
    this.least = least;
    this.most = most;
  }

  @Override
  public Expression apply(Seq<Expression> arguments) {
    int count = arguments.size();
    if (count < least || count > most) {
      List<Object> counts = new ArrayList<>();
      for (int each = least; each <= Math.min(most, parameters.size()); each++) {
        counts.add(each);
      }
      throw ScalarCall.<RuntimeException>wrongCount(name, counts, count);
    }
    List<Expression> converted = new ArrayList<>();
    for (int index = 0; index < count; index++) {
      converted.add(converted(arguments.apply(index), index));
    }
    return function.builder(CollectionConverters.asScala(converted).toSeq());
  }

  private Expression converted(Expression argument, int index) {
    if (argument instanceof NamedArgumentExpression) {
      NamedArgumentExpression named = (NamedArgumentExpression) argument;
      for (StructField each : parameters.fields()) {
        if (each.name().equals(named.key())) {
          return new NamedArgumentExpression(named.key(), cast(named.value(), each.dataType()));
        }
      }
      return argument;
    }
    return index < parameters.size() ? cast(argument, parameters.fields()[index].dataType()) : argument;
  }

  /** Casts an argument, unless its parameter has the type VOID, which accepts any argument unchanged. */
  private static Expression cast(Expression argument, DataType type) {
    return type.equals(DataTypes.NullType) ? argument : Cast$.MODULE$.apply(argument, type, true);
  }
}
