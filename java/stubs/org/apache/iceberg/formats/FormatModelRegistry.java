package org.apache.iceberg.formats;

import org.apache.iceberg.FileFormat;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.DataWriter;

/** What Iceberg's class has that ours are compiled against. */
public final class FormatModelRegistry {
  private FormatModelRegistry() {}

  public static <D, S> FileWriterBuilder<DataWriter<D>, S> dataWriteBuilder(
      FileFormat format, Class<? extends D> type, EncryptedOutputFile outputFile) {
    throw new UnsupportedOperationException();
  }

  public static <D, S> FileWriterBuilder<EqualityDeleteWriter<D>, S> equalityDeleteWriteBuilder(
      FileFormat format, Class<D> type, EncryptedOutputFile outputFile) {
    throw new UnsupportedOperationException();
  }
}
