package org.apache.iceberg.deletes;

import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.FileWriter;

/** What Iceberg's class has that ours are compiled against. */
public abstract class EqualityDeleteWriter<T> implements FileWriter<T, DeleteWriteResult> {
  private EqualityDeleteWriter() {}
}
