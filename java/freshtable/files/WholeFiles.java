package freshtable.files;

import java.io.IOException;
import java.util.List;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.types.StructType;

/** Some columns of all rows of Parquet files, including deleted rows. */
record WholeFiles(StructType columns, int[] ids) {

  /** A consumer of the rows. */
  interface Taker {
    /** Returns whether to continue with another file, which has this number of rows. */
    default boolean takes(long rows) {
      return true;
    }

    /** Receives rows of the file, with the columns in the requested order. */
    void take(OpenedFile file, List<StoredColumn> stored, ReadBatches batches);
  }

  /**
   * Returns whether all rows were consumed. False if the consumer stopped, or if a file stores a column in an
   * unsupported way.
   */
  boolean read(List<OpenedFile> files, Taker taker) throws IOException {
    for (OpenedFile file : files) {
      if (!read(file, taker)) {
        return false;
      }
    }
    return true;
  }

  private boolean read(OpenedFile file, Taker taker) throws IOException {
    ParquetReadOptions options = OpenedFile.options().build();
    ParquetMetadata footer = file.footer(options);
    MessageType schema = footer.getFileMetaData().getSchema();
    List<StoredColumn> stored = StoredColumn.all(schema, ids, columns);
    if (stored == null) {
      return false;
    }
    try (ParquetFileReader reader = file.reader(footer, options)) {
      reader.setRequestedSchema(ReadBatches.schema(schema, stored));
      long rows = reader.getRecordCount();
      if (!taker.takes(rows)) {
        return false;
      }
      try (ReadBatches batches = new ReadBatches(schema, stored, reader::readNextRowGroup, rows)) {
        while (batches.next()) {
          taker.take(file, stored, batches);
        }
      }
    }
    return true;
  }
}
