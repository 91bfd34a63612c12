package org.apache.iceberg.catalog;

/** What Iceberg's class has that ours are compiled against. */
public class Namespace {
  private Namespace() {}

  public static Namespace of(String... levels) {
    throw new UnsupportedOperationException(levels[0]);
  }
}
