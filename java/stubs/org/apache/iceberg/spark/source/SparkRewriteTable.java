package org.apache.iceberg.spark.source;

import java.util.Set;
import org.apache.iceberg.Table;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Iceberg's class has that ours are compiled against. */
public class SparkRewriteTable implements SupportsRead {
  public SparkRewriteTable(Table table, String groupId) {
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

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    throw new UnsupportedOperationException();
  }
}
