package freshtable.functions;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.aggregate.ScalaUDAF;
import org.apache.spark.sql.expressions.UserDefinedAggregateFunction;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** Builds the call expression of an untyped aggregate. */
@SuppressWarnings("deprecation")
final class AggregateCall extends AbstractFunction1<Seq<Expression>, Expression> {
  private final String name;
  private final UserDefinedAggregateFunction function;

  AggregateCall(String name, UserDefinedAggregateFunction function) {
    this.name = name;
    this.function = function;
  }

  @Override
  public Expression apply(Seq<Expression> arguments) {
    return new ScalaUDAF(arguments, function, 0, 0, Option.apply(name));
  }
}
