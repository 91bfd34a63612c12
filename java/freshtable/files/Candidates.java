package freshtable.files;

import freshtable.inline.Rows;
import java.util.Arrays;
import org.apache.iceberg.FileScanTask;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/** The rows of a file that match in the key columns read so far, with the columns that were read of them. */
final class Candidates {
  private final LookedUpFile file;
  private final FileScanTask task;
  private final HeldColumn[] values;
  private long[] places = new long[16];
  /** The number of the value that the first key column matched. */
  private int[] numbers = new int[16];
  private int count;

  Candidates(LookedUpFile file, FileScanTask task, int columns) {
    this.file = file;
    this.task = task;
    this.values = new HeldColumn[columns];
  }

  LookedUpFile file() {
    return file;
  }

  int count() {
    return count;
  }

  void add(long place, int number) {
    if (count == places.length) {
      places = Arrays.copyOf(places, 2 * count);
      numbers = Arrays.copyOf(numbers, 2 * count);
    }
    places[count] = place;
    numbers[count++] = number;
  }

  long[] places() {
    return Arrays.copyOf(places, count);
  }

  int number(int index) {
    return numbers[index];
  }

  /** Returns the column of all candidates, or null if it has not been read. */
  HeldColumn column(int column) {
    return values[column];
  }

  void put(int column, HeldColumn read) {
    values[column] = read;
  }

  /** Keeps only the candidates with these indexes, which are in order. */
  void keep(int[] kept) {
    if (kept.length == count) {
      return;
    }
    for (int column = 0; column < values.length; column++) {
      values[column] = values[column] == null ? null : values[column].select(kept);
    }
    for (int index = 0; index < kept.length; index++) {
      places[index] = places[kept[index]];
      numbers[index] = numbers[kept[index]];
    }
    count = kept.length;
  }

  UTF8String location() {
    return UTF8String.fromString(task.file().location());
  }

  /** Adds the candidates, of which all columns were read, to rows that may also have the place of each. */
  void addTo(Rows rows) {
    UTF8String location = location();
    for (int index = 0; index < count; index++) {
      Object[] row = new Object[rows.columns().length()];
      for (int column = 0; column < values.length; column++) {
        row[column] = values[column].value(index);
      }
      if (row.length > values.length) {
        row[values.length] = location;
        row[values.length + 1] = places[index];
      }
      rows.add(new GenericInternalRow(row));
    }
  }
}
