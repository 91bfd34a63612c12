package org.apache.iceberg.spark.source;

import java.util.Set;
import org.apache.iceberg.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** What Iceberg's class has that ours are compiled against. */
public class SparkTable implements org.apache.spark.sql.connector.catalog.Table {
  public SparkTable(Table icebergTable) {
    throw new UnsupportedOperationException(icebergTable.name());
  }

  public Table table() {
    throw new UnsupportedOperationException();
  }

  @Override
  public String name() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Set<TableCapability> capabilities() {
    throw new UnsupportedOperationException();
  }
}
