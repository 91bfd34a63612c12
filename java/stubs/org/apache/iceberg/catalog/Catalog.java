package org.apache.iceberg.catalog;

/** What Iceberg's interface has that ours are compiled against. */
public interface Catalog {}
