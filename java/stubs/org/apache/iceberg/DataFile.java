package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface DataFile extends ContentFile<DataFile> {
  default Long firstRowId() {
    throw new UnsupportedOperationException();
  }
}
