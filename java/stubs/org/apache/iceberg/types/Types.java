package org.apache.iceberg.types;

/** What Iceberg's class has that ours are compiled against. */
public class Types {
  private Types() {}

  /** What Iceberg's class has that ours are compiled against. */
  public static final class NestedField {
    private NestedField() {}

    public int fieldId() {
      throw new UnsupportedOperationException();
    }

    public String name() {
      throw new UnsupportedOperationException();
    }

    public Type type() {
      throw new UnsupportedOperationException();
    }
  }
}
