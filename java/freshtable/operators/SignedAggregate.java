package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegralType;
import scala.Enumeration;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * COUNT, SUM and AVG over a changelog, computed by sums in which retracted rows have the opposite sign.
 *
 * @param functions the sums
 * @param result the result of the function, computed from the sums
 */
record SignedAggregate(List<AggregateExpression> functions, Expression result) {
  /** Returns the row count, as a sum of 1 for each added and -1 for each retracted row. */
  static AggregateExpression rows(Attribute adds) {
    return summed(signed(Literal$.MODULE$.apply(1L), adds), Option.empty());
  }

  /** Returns the signed form of a function, or null if it is not COUNT, SUM or AVG. */
  static SignedAggregate of(AggregateExpression function, Attribute adds) {
    Option<Expression> filter = function.filter();
    if (function.aggregateFunction() instanceof Count count) {
      AggregateExpression rows = counted(CollectionConverters.asJava(count.children()), adds, filter);
      return new SignedAggregate(List.of(rows), orZero(rows));
    }
    if (function.aggregateFunction() instanceof Sum sum && isPlain(sum.evalContext().evalMode())) {
      return new Summing(sum.dataType(), sum.evalContext().evalMode(), adds, filter).of(sum.child());
    }
    if (function.aggregateFunction() instanceof Average average && isPlain(average.evalMode())) {
      SignedAggregate sum = new Summing(average.sumDataType(), average.evalMode(), adds, filter)
          .of(average.child());
      AggregateExpression rows = counted(List.of(average.child()), adds, filter);
      List<AggregateExpression> functions = new ArrayList<>(sum.functions());
      functions.add(rows);
      Expression divided = replaced(average.evaluateExpression(), average.sum(), sum.result());
      return new SignedAggregate(functions, replaced(divided, average.count(), orZero(rows)));
    }
    return null;
  }

  /** How values are summed: the type, the behaviour on overflow, the sign column and the filter. */
  private record Summing(DataType type, Enumeration.Value mode, Attribute adds, Option<Expression> filter) {
    SignedAggregate of(Expression value) {
      AggregateExpression rows = counted(List.of(value), adds, filter);
      SignedAggregate sum = whole(value);
      List<AggregateExpression> functions = new ArrayList<>(sum.functions());
      functions.add(rows);
      Expression none = Literal$.MODULE$.create(null, sum.result().dataType());
      return new SignedAggregate(functions, new If(isPositive(rows), sum.result(), none));
    }

    private SignedAggregate whole(Expression value) {
      if (WideSum.isNeeded(value.dataType())) {
        AggregateExpression high = summed(signed(WideSum.high(value), adds), filter);
        AggregateExpression low = summed(signed(WideSum.low(value), adds), filter);
        return new SignedAggregate(
            List.of(high, low), WideSum.whole(high.resultAttribute(), low.resultAttribute(), type, mode));
      }
      if (type instanceof DoubleType) {
        return floatingSum(value, adds, filter);
      }
      Expression number = value.dataType() instanceof IntegralType ? cast(value, type) : value;
      AggregateExpression sum = summed(signed(number, adds), filter);
      return new SignedAggregate(List.of(sum), sum.resultAttribute());
    }
  }

  /**
   * Returns a floating-point sum. NaN and infinities are counted separately, because subtraction cannot
   * remove them from a sum.
   */
  private static SignedAggregate floatingSum(Expression number, Attribute adds, Option<Expression> filter) {
    Expression value = cast(number, DataTypes.DoubleType);
    Literal most = Literal$.MODULE$.apply(Double.POSITIVE_INFINITY),
        least = Literal$.MODULE$.apply(Double.NEGATIVE_INFINITY);
    Expression isMost = new EqualTo(value, most),
        isLeast = new EqualTo(value, least), isNone = new IsNaN(value);
    Expression finite = new If(new Or(isNone, new Or(isMost, isLeast)), Literal$.MODULE$.apply(0.0), value);
    AggregateExpression sum = summed(signed(finite, adds), filter);
    AggregateExpression nones = countedIf(isNone, adds, filter);
    AggregateExpression greatest = countedIf(isMost, adds, filter),
        smallest = countedIf(isLeast, adds, filter);
    Expression none = new Or(isPositive(nones), new And(isPositive(greatest), isPositive(smallest)));
    Expression infinite = new If(isPositive(smallest), least, sum.resultAttribute());
    Expression result =
        new If(none, Literal$.MODULE$.apply(Double.NaN), new If(isPositive(greatest), most, infinite));
    return new SignedAggregate(List.of(sum, nones, greatest, smallest), result);
  }

  private static AggregateExpression counted(
      List<Expression> values, Attribute adds, Option<Expression> filter) {
    Expression all = null;
    for (Expression value : values) {
      if (value.nullable()) {
        all = all == null ? new IsNotNull(value) : new And(all, new IsNotNull(value));
      }
    }
    Expression one = signed(Literal$.MODULE$.apply(1L), adds);
    return summed(all == null ? one : new If(all, one, Literal$.MODULE$.apply(0L)), filter);
  }

  private static AggregateExpression countedIf(
      Expression condition, Attribute adds, Option<Expression> filter) {
    Literal zero = Literal$.MODULE$.apply(0L);
    return summed(new If(condition, signed(Literal$.MODULE$.apply(1L), adds), zero), filter);
  }

  private static AggregateExpression summed(Expression value, Option<Expression> filter) {
    return new AggregateExpression(new Sum(value),
        Partial$.MODULE$, false, filter, NamedExpression.newExprId());
  }

  private static Expression signed(Expression value, Attribute adds) {
    return new If(adds, value, new UnaryMinus(value, false));
  }

  private static Expression isPositive(AggregateExpression rows) {
    return new GreaterThan(orZero(rows), Literal$.MODULE$.apply(0L));
  }

  private static Expression orZero(AggregateExpression rows) {
    return new Coalesce(
        KeyedRows.<Expression>seq(List.of(rows.resultAttribute(), Literal$.MODULE$.apply(0L))));
  }

  private static Expression cast(Expression value, DataType type) {
    return value.dataType().equals(type) ? value : Cast$.MODULE$.apply(value, type, false);
  }

  private static boolean isPlain(Enumeration.Value mode) {
    return !mode.equals(EvalMode.TRY());
  }

  private static Expression replaced(Expression whole, Attribute part, Expression by) {
    if (whole instanceof Attribute attribute && attribute.exprId().equals(part.exprId())) {
      return by;
    }
    return whole.mapChildren(Mapped.by(each -> replaced(each, part, by)));
  }
}
