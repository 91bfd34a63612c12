package org.apache.iceberg.spark.source;

import org.apache.iceberg.Table;

/** What Iceberg's class has that ours are compiled against. */
public abstract class SparkTable implements org.apache.spark.sql.connector.catalog.Table {
  private SparkTable() {}

  public Table table() {
    throw new UnsupportedOperationException();
  }
}
