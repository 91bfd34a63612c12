package org.apache.iceberg.expressions;

/** What Iceberg's class has that ours are compiled against. */
public class Expressions {
  private Expressions() {}

  public static Expression and(Expression left, Expression right) {
    throw new UnsupportedOperationException();
  }

  public static Expression or(Expression left, Expression right) {
    throw new UnsupportedOperationException();
  }

  public static <T> UnboundPredicate<T> isNull(String name) {
    throw new UnsupportedOperationException();
  }

  public static <T> UnboundPredicate<T> lessThanOrEqual(String name, T value) {
    throw new UnsupportedOperationException();
  }

  public static <T> UnboundPredicate<T> greaterThanOrEqual(String name, T value) {
    throw new UnsupportedOperationException();
  }
}
