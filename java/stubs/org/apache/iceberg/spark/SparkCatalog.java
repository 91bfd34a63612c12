package org.apache.iceberg.spark;

import org.apache.iceberg.catalog.Catalog;

/** What Iceberg's class has that ours are compiled against. */
public class SparkCatalog {
  private SparkCatalog() {}

  public Catalog icebergCatalog() {
    throw new UnsupportedOperationException();
  }
}
