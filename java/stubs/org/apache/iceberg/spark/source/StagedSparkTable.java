package org.apache.iceberg.spark.source;

import org.apache.iceberg.Transaction;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** What Iceberg's class has that ours are compiled against. */
public class StagedSparkTable extends SparkTable implements StagedTable, SupportsWrite {
  public StagedSparkTable(Transaction transaction) {
    super(transaction.table());
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void commitStagedChanges() {
    throw new UnsupportedOperationException();
  }

  @Override
  public void abortStagedChanges() {
    throw new UnsupportedOperationException();
  }
}
