package freshtable.operators;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.util.MathUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.LongType;
import scala.math.BigDecimal$;

/**
 * Sums of wide numbers in two halves, so that a temporary overflow cancels out.
 *
 * <p>A sum in a single number would fail, or remain NULL forever, if it became too large between two rows of
 * a batch.
 */
public final class WideSum {
  private static final int LOW_BITS = 32;
  private static final long LOW = (1L << LOW_BITS) - 1;
  private static final int LOW_DIGITS = 9;
  private static final BigInteger DECIMAL_LOW = BigInteger.TEN.pow(LOW_DIGITS);
  /** Up to this precision, the type of the sum has room for 10^10 rows. */
  private static final int ROOMY_PRECISION = DecimalType.MAX_PRECISION() - 10;

  private WideSum() {}

  /** Returns whether sums of this {@code type} need two halves. */
  static boolean isNeeded(DataType type) {
    return type instanceof LongType || type instanceof DecimalType decimal
        && decimal.precision() > ROOMY_PRECISION;
  }

  /** Returns the higher half of a {@code value}, which may be negative. */
  static Expression high(Expression value) {
    if (value.dataType() instanceof LongType) {
      return new ShiftRight(value, Literal$.MODULE$.apply(LOW_BITS));
    }
    return call(new DecimalType(DecimalType.MAX_PRECISION() - LOW_DIGITS, 0), "highOf", value);
  }

  /** Returns the lower half of a {@code value}, a LONG. */
  static Expression low(Expression value) {
    if (value.dataType() instanceof LongType) {
      return new BitwiseAnd(value, Literal$.MODULE$.apply(LOW));
    }
    return call(DataTypes.LongType, "lowOf", value);
  }

  /**
   * Returns the sum, of this {@code type}, from the sums of its halves. An overflow is handled as
   * {@code mode} says.
   */
  static Expression whole(Expression high, Expression low, DataType type, scala.Enumeration.Value mode) {
    Expression fails = Literal$.MODULE$.apply(mode.equals(EvalMode.ANSI()));
    if (type instanceof DecimalType decimal) {
      Expression precision = Literal$.MODULE$.apply(decimal.precision()),
          scale = Literal$.MODULE$.apply(decimal.scale());
      return call(type, "wholeOf", high, low, precision, scale, fails);
    }
    if (type instanceof DoubleType) {
      Expression shifted = new Multiply(number(high), Literal$.MODULE$.apply((double) (1L << LOW_BITS)));
      return new Add(shifted, number(low));
    }
    return call(type, "wholeOf", high, low, fails);
  }

  /** Returns the higher half of a {@code value}. Called by generated code, like the following methods. */
  public static Decimal highOf(Decimal value) {
    return Decimal.apply(BigDecimal$.MODULE$.javaBigDecimal2bigDecimal(new BigDecimal(halves(value)[0])));
  }

  public static long lowOf(Decimal value) {
    return halves(value)[1].longValue();
  }

  /** Returns a sum of LONGs. An overflow fails or wraps around, as in Spark. */
  public static long wholeOf(long high, long low, boolean fails) {
    long carried = high + (low >> LOW_BITS);
    if (fails && carried != (int) carried) {
      return MathUtils.addExact(Long.MAX_VALUE, 1L);
    }
    return carried << LOW_BITS | low & LOW;
  }

  /** Returns a sum of DECIMALs. An overflow fails or returns NULL. */
  public static Decimal wholeOf(Decimal high, long low, int precision, int scale, boolean fails) {
    BigInteger unscaled = high.toJavaBigDecimal()
        .unscaledValue().multiply(DECIMAL_LOW).add(BigInteger.valueOf(low));
    Decimal whole = Decimal.apply(
        BigDecimal$.MODULE$.javaBigDecimal2bigDecimal(new BigDecimal(unscaled, scale)));
    return whole.toPrecision(precision, scale, Decimal.ROUND_HALF_UP(), !fails, null);
  }

  private static BigInteger[] halves(Decimal value) {
    return value.toJavaBigDecimal().unscaledValue().divideAndRemainder(DECIMAL_LOW);
  }

  private static Expression number(Expression half) {
    return Cast$.MODULE$.apply(half, DataTypes.DoubleType, false);
  }

  private static Expression call(DataType type, String method, Expression... arguments) {
    return new StaticInvoke(
        WideSum.class, type, method, KeyedRows.<Expression>seq(List.of(arguments)),
        KeyedRows.<AbstractDataType>seq(List.of()),
        true, true, true, scala.Option.empty());
  }
}
