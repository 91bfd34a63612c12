package freshtable.files;

import freshtable.files.HashDifference.Hashes;
import java.io.IOException;
import org.apache.iceberg.FileScanTask;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Computes the hashes of the rows of one file. */
final class FileHashes implements TaskReaders.Taker {
  private static final Hashes NONE = new Hashes(null, 0);

  private final TaskReaders readers;
  private final RowHashes hashes;
  private final int position;
  private long[] batch = {};
  private Hashes file = NONE;

  private FileHashes(TaskReaders readers, StructType compared) {
    this.readers = readers;
    this.hashes = new RowHashes(compared, readers.ordinals(compared));
    this.position = readers.position();
  }

  /** Returns the hashes of the rows of a reader's file over the {@code compared} columns. */
  static Hashes of(TaskReaders readers, int number, StructType compared) throws IOException {
    FileHashes computed = new FileHashes(readers, compared);
    readers.read(number, computed);
    return computed.file;
  }

  @Override
  public void batch(FileScanTask task, ColumnarBatch rows) {
    begin(task);
    int count = rows.numRows();
    if (batch.length < count) {
      batch = new long[count];
    }
    hashes.of(rows, batch);
    ColumnVector places = rows.column(position);
    int first = Math.toIntExact(places.getLong(0));
    int last = Math.toIntExact(places.getLong(count - 1));
    if (last - first == count - 1) {
      System.arraycopy(batch, 0, file.hashes(), first, count);
      file.live().set(first, last + 1);
      return;
    }
    for (int row = 0; row < count; row++) {
      add(places.getLong(row), batch[row]);
    }
  }

  @Override
  public void row(FileScanTask task, InternalRow row) {
    begin(task);
    add(row.getLong(position), hashes.of(row));
  }

  private void begin(FileScanTask task) {
    if (file == NONE) {
      file = new Hashes(task, Math.toIntExact(task.file().recordCount()));
    }
  }

  private void add(long place, long hash) {
    file.hashes()[(int) place] = hash;
    file.live().set((int) place);
  }
}
