package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface DeleteFile extends ContentFile<DeleteFile> {
  default Long contentOffset() {
    throw new UnsupportedOperationException();
  }
}
