package freshtable.files;

import freshtable.inline.Rows;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The places of rows that are wanted whatever their other columns contain, and these columns. */
final class SettledRows {
  private final List<UTF8String> files = new ArrayList<>();
  private final List<Long> places = new ArrayList<>();
  private final List<InternalRow> values = new ArrayList<>();

  private SettledRows() {}

  /**
   * Takes the candidates away whose value in the first column occurs as often as it is wanted, and returns
   * them with the wanted rows of that value. Null if values of the first column cannot be compared.
   *
   * <p>The values in column {@code key} of {@code values} are {@code first}. The last column is the number of
   * copies.
   */
  static SettledRows of(List<Candidates> found, WantedValues first, Rows values, int key) {
    if (!first.areCompared()) {
      return null;
    }
    long[] occurring = new long[first.numbers()];
    for (Candidates each : found) {
      for (int index = 0; index < each.count(); index++) {
        occurring[each.number(index)]++;
      }
    }
    List<List<InternalRow>> rows = first.rows(values, key, values.columns().length() - 1);
    SettledRows settled = new SettledRows();
    int[] given = new int[occurring.length];
    for (Candidates each : found) {
      UTF8String location = each.location();
      long[] at = each.places();
      int[] open = new int[each.count()];
      int left = 0;
      for (int index = 0; index < each.count(); index++) {
        int number = each.number(index);
        if (occurring[number] != rows.get(number).size()) {
          open[left++] = index;
          continue;
        }
        settled.files.add(location);
        settled.places.add(at[index]);
        settled.values.add(rows.get(number).get(given[number]++));
      }
      each.keep(Arrays.copyOf(open, left));
    }
    return settled;
  }

  int count() {
    return places.size();
  }

  void addTo(Rows rows) {
    StructType columns = rows.columns();
    int keys = columns.length() - 2;
    for (int index = 0; index < places.size(); index++) {
      Object[] row = new Object[keys + 2];
      for (int key = 0; key < keys; key++) {
        row[key] = values.get(index).get(key, columns.apply(key).dataType());
      }
      row[keys] = files.get(index);
      row[keys + 1] = places.get(index);
      rows.add(new GenericInternalRow(row));
    }
  }
}
