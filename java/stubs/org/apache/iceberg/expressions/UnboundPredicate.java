package org.apache.iceberg.expressions;

/** What Iceberg's class has that ours are compiled against. */
public abstract class UnboundPredicate<T> implements Expression {
  private UnboundPredicate() {}
}
