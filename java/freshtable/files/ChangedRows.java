package freshtable.files;

import freshtable.inline.Rows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The rows that differ between Parquet files and their rewritten versions, if the writer preserved the order
 * of rows. They are compared in this process, without a job that would read all of them.
 */
public final class ChangedRows {
  /** The number of rows within which the next equal pair is searched for. */
  private static final int NEAR = 32;

  private final Rows rows;
  private final int most;

  private ChangedRows(StructType columns, int most) {
    this.rows = new Rows(columns);
    this.most = most;
  }

  /**
   * Returns the rows that turn the first files of a table into the second ones. The last column, named
   * {@code sign}, is -1 for removed and 1 for added rows.
   *
   * <p>Returns null if a file cannot be read or stores a column in an unsupported way, or if there are more
   * than {@code most} such rows.
   */
  public static Rows of(Table table, List<OpenedFile> before, List<OpenedFile> after, String sign, int most)
      throws IOException {
    StructType columns = SparkSchemaUtil.convert(table.schema());
    WholeFiles whole = new WholeFiles(columns, OpenedFiles.ids(table, columns));
    List<List<HeldColumn>> sides =
        ReadingThreads.all(List.of(() -> held(whole, before), () -> held(whole, after)));
    ChangedRows changed = new ChangedRows(
        columns.add(new StructField(sign, DataTypes.IntegerType, false, Metadata.empty())), most);
    return sides != null && changed.compare(sides.get(0), sides.get(1)) ? changed.rows : null;
  }

  private static List<HeldColumn> held(WholeFiles whole, List<OpenedFile> files) throws IOException {
    List<HeldColumn> held = new ArrayList<>();
    for (int column = 0; column < whole.ids().length; column++) {
      held.add(new HeldColumn());
    }
    return whole.read(files, (file, stored, batches) -> add(file, stored, batches, held)) ? held : null;
  }

  private static void add(
      OpenedFile file, List<StoredColumn> stored, ReadBatches batches, List<HeldColumn> held) {
    boolean[] deleted = new boolean[batches.size()];
    for (int row = 0; row < deleted.length; row++) {
      deleted[row] = file.isDeleted(batches.place(row));
    }
    for (int column = 0; column < held.size(); column++) {
      held.get(column).add(stored.get(column), batches.column(column), deleted);
    }
  }

  /**
   * Compares both sides in order. At a difference, rows up to the next equal pair are skipped on one or both
   * sides. If there is no such pair nearby, one row is skipped, on the side with more remaining rows or on
   * both.
   */
  private boolean compare(List<HeldColumn> before, List<HeldColumn> after) {
    int old = 0;
    int now = 0;
    int olds = before.get(0).count();
    int news = after.get(0).count();
    while (old < olds || now < news) {
      if (isSame(before, old, after, now)) {
        old++;
        now++;
        continue;
      }
      int[] passed = passed(before, old, after, now);
      int gone = passed[0];
      int come = passed[1];
      for (; gone > 0; gone--) {
        if (!add(before, old++, -1)) {
          return false;
        }
      }
      for (; come > 0; come--) {
        if (!add(after, now++, 1)) {
          return false;
        }
      }
    }
    return true;
  }

  /** Returns the numbers of removed and added rows before the next equal pair. */
  private static int[] passed(List<HeldColumn> before, int old, List<HeldColumn> after, int now) {
    for (int near = 1; near <= NEAR; near++) {
      if (isSame(before, old + near, after, now + near)) {
        return new int[] {near, near};
      }
      if (isSame(before, old + near, after, now)) {
        return new int[] {near, 0};
      }
      if (isSame(before, old, after, now + near)) {
        return new int[] {0, near};
      }
    }
    int more = (before.get(0).count() - old) - (after.get(0).count() - now);
    return new int[] {more >= 0 ? 1 : 0, more <= 0 ? 1 : 0};
  }

  private static boolean isSame(List<HeldColumn> before, int old, List<HeldColumn> after, int now) {
    if (old >= before.get(0).count() || now >= after.get(0).count()) {
      return false;
    }
    for (int column = 0; column < before.size(); column++) {
      if (!before.get(column).isSame(old, after.get(column), now)) {
        return false;
      }
    }
    return true;
  }

  private boolean add(List<HeldColumn> side, int row, int sign) {
    if (rows.size() == most) {
      return false;
    }
    Object[] values = new Object[side.size() + 1];
    for (int column = 0; column < side.size(); column++) {
      values[column] = side.get(column).value(row);
    }
    values[side.size()] = sign;
    rows.add(new GenericInternalRow(values));
    return true;
  }
}
