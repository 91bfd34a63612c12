package org.apache.iceberg.expressions;

/** What Iceberg's interface has that ours are compiled against. */
public interface Expression {}
