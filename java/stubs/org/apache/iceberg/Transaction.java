package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface Transaction {
  Table table();
}
