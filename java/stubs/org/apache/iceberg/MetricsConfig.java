package org.apache.iceberg;

/** What Iceberg's class has that ours are compiled against. */
public final class MetricsConfig {
  private MetricsConfig() {}

  public static MetricsConfig forTable(Table table) {
    throw new UnsupportedOperationException();
  }

  public static MetricsConfig forPositionDelete() {
    throw new UnsupportedOperationException();
  }
}
