package freshtable.operators;

import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.Function1;
import scala.runtime.AbstractFunction1;

/** A transformation of expressions, as a Scala function for Spark's expression trees. */
final class Mapped extends AbstractFunction1<Expression, Expression> {
  private final UnaryOperator<Expression> change;

  private Mapped(UnaryOperator<Expression> change) {
    this.change = change;
  }

  static Function1<Expression, Expression> by(UnaryOperator<Expression> change) {
    return new Mapped(change);
  }

  @Override
  public Expression apply(Expression expression) {
    return change.apply(expression);
  }
}
