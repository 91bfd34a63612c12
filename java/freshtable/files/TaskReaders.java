package freshtable.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.ScanTaskSetManager;
import org.apache.iceberg.spark.source.SparkRewriteTable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;

/**
 * Iceberg's readers of scan tasks, one reader for each file. They apply deletes, and support all file
 * formats, types, and changes of a table's columns.
 */
final class TaskReaders {
  static final String FILE = "_file";
  static final String POSITION = "_pos";
  private static final String TERABYTE = String.valueOf(1L << 40);
  /** Each file counts as one split, so that no file is split or read together with another one. */
  private static final CaseInsensitiveStringMap EACH_FILE =
      new CaseInsensitiveStringMap(Map.of("split-size", TERABYTE, "file-open-cost", TERABYTE));

  private final Map<String, FileScanTask> tasks = new HashMap<>();
  private final StructType columns;
  private final InputPartition[] parts;
  private final PartitionReaderFactory readers;

  private TaskReaders(Scan scan, List<FileScanTask> tasks) {
    Batch batch = scan.toBatch();
    this.columns = scan.readSchema();
    this.parts = batch.planInputPartitions();
    this.readers = batch.createReaderFactory();
    tasks.forEach(task -> this.tasks.put(task.file().location(), task));
  }

  /** Receives the rows of a file that are not deleted. They are valid until it returns. */
  interface Taker {
    /** Receives some rows by columns. */
    void batch(FileScanTask task, ColumnarBatch rows);

    /** Receives a row. */
    void row(FileScanTask task, InternalRow row);
  }

  /**
   * Returns readers of some columns of a table. {@code tasks}, which may be empty, reads each file once. The
   * source of the scan is not needed after this returns.
   */
  static TaskReaders of(
      SparkSession session, Table table, List<FileScanTask> tasks, StructType columns) {
    String name = UUID.randomUUID().toString();
    StructType read = columns.add(FILE, DataTypes.StringType).add(POSITION, DataTypes.LongType);
    ScanTaskSetManager.get().stageTasks(table, name, tasks);
    try {
      return session.withActive(
          () -> {
            ScanBuilder scan = new SparkRewriteTable(table, name).newScanBuilder(EACH_FILE);
            ((SupportsPushDownRequiredColumns) scan).pruneColumns(read);
            return new TaskReaders(scan.build(), tasks);
          });
    } finally {
      ScanTaskSetManager.get().removeTasks(table, name);
    }
  }

  /** Returns the number of readers. */
  int count() {
    return parts.length;
  }

  /** Returns the indexes of columns in the rows. */
  int[] ordinals(StructType wanted) {
    return Arrays.stream(wanted.fieldNames()).mapToInt(columns::fieldIndex).toArray();
  }

  /** Returns references to columns of the rows. */
  List<Expression> references(StructType wanted) {
    List<Expression> values = new ArrayList<>();
    int[] ordinals = ordinals(wanted);
    for (int column = 0; column < ordinals.length; column++) {
      StructField field = wanted.apply(column);
      values.add(new BoundReference(ordinals[column], field.dataType(), field.nullable()));
    }
    return values;
  }

  /** Returns the index of the column with the position of each row in its file. */
  int position() {
    return columns.fieldIndex(POSITION);
  }

  /** Reads the file of a reader. */
  void read(int number, Taker taker) throws IOException {
    InputPartition part = parts[number];
    int file = columns.fieldIndex(FILE);
    if (readers.supportColumnarReads(part)) {
      try (PartitionReader<ColumnarBatch> reader = readers.createColumnarReader(part)) {
        while (reader.next()) {
          ColumnarBatch batch = reader.get();
          if (batch.numRows() > 0) {
            taker.batch(tasks.get(batch.column(file).getUTF8String(0).toString()), batch);
          }
        }
      }
      return;
    }
    FileScanTask task = null;
    try (PartitionReader<InternalRow> reader = readers.createReader(part)) {
      while (reader.next()) {
        InternalRow row = reader.get();
        if (task == null) {
          task = tasks.get(row.getUTF8String(file).toString());
        }
        taker.row(task, row);
      }
    }
  }
}
