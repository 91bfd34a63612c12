package org.apache.iceberg;

/** What Iceberg's class has that ours are compiled against. */
public class PartitionSpec {
  private PartitionSpec() {}
}
