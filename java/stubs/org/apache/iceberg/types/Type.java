package org.apache.iceberg.types;

/** What Iceberg's interface has that ours are compiled against. */
public interface Type {}
