package org.apache.iceberg.spark;

import org.apache.iceberg.Table;

/** What Iceberg's class has that ours are compiled against. */
public class SparkTableCache {
  private SparkTableCache() {}

  public static SparkTableCache get() {
    throw new UnsupportedOperationException();
  }

  public void add(String key, Table table) {
    throw new UnsupportedOperationException();
  }

  public Table remove(String key) {
    throw new UnsupportedOperationException();
  }
}
