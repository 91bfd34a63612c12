package freshtable.operators;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** The changelog rows that an operator emits for a key in a batch. */
final class Changes {
  private final List<InternalRow> rows = new ArrayList<>();

  static Iterator<InternalRow> none() {
    return scala.collection.Iterator$.MODULE$.empty();
  }

  Iterator<InternalRow> rows() {
    return CollectionConverters.asScala(rows.iterator());
  }

  /**
   * Returns the changes from {@code before} to {@code after}, which are the rows of a ranking.
   *
   * <p>If rows contain their numbers, {@code number} is the number of the first row. If it is null, a row
   * does not depend on its position.
   */
  static Iterator<InternalRow> between(List<UnsafeRow> before, List<UnsafeRow> after, Integer number) {
    Changes changes = new Changes();
    if (number == null) {
      List<UnsafeRow> gone = without(before, after), came = without(after, before);
      for (int place = 0; place < Math.max(gone.size(), came.size()); place++) {
        changes.replace(at(gone, place), at(came, place));
      }
    } else {
      for (int place = 0; place < Math.max(before.size(), after.size()); place++) {
        changes.replace(at(before, place), at(after, place), number + place);
      }
    }
    return changes.rows();
  }

  /**
   * Replaces {@code before} with {@code after}, either of which may be null. Equal rows produce no change.
   */
  void replace(UnsafeRow before, UnsafeRow after, Object... more) {
    if (before != null && before.equals(after)) {
      return;
    }
    if (before != null) {
      add(before, after == null ? RowKind.DELETE : RowKind.UPDATE_BEFORE, more);
    }
    if (after != null) {
      add(after, before == null ? RowKind.INSERT : RowKind.UPDATE_AFTER, more);
    }
  }

  private static UnsafeRow at(List<UnsafeRow> rows, int place) {
    return place < rows.size() ? rows.get(place) : null;
  }

  /** Returns the multiset difference of {@code rows} and {@code others}. */
  private static List<UnsafeRow> without(List<UnsafeRow> rows, List<UnsafeRow> others) {
    Map<UnsafeRow, Integer> taken = new HashMap<>();
    for (UnsafeRow row : others) {
      taken.merge(row, 1, Integer::sum);
    }
    List<UnsafeRow> left = new ArrayList<>();
    for (UnsafeRow row : rows) {
      if (taken.merge(row, -1, Integer::sum) < 0) {
        left.add(row);
      }
    }
    return left;
  }

  private void add(UnsafeRow row, byte kind, Object[] more) {
    Object[] last = new Object[more.length + 1];
    System.arraycopy(more, 0, last, 0, more.length);
    last[more.length] = kind;
    rows.add(new JoinedRow(row, new GenericInternalRow(last)));
  }
}
