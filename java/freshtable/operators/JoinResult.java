package freshtable.operators;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The net changes of a batch in the join result of a key. A row that is added and retracted within the batch
 * is omitted.
 */
final class JoinResult {
  private static final InternalRow[] KINDS = new InternalRow[4];

  static {
    for (byte kind = 0; kind < KINDS.length; kind++) {
      KINDS[kind] = new GenericInternalRow(new Object[] {kind});
    }
  }

  private final InternalRow noLeft;
  private final InternalRow noRight;
  private final boolean pairs;
  private final boolean kinds;
  private final List<InternalRow> rows = new ArrayList<>();
  /** Null if no change of the batch can cancel another one. */
  private final Map<Result, Change> changes;

  JoinResult(JoinRows shape, boolean combined) {
    this.noLeft = shape.noLeft();
    this.noRight = shape.noRight();
    this.pairs = shape.pairs();
    this.kinds = shape.kinds();
    this.changes = combined ? new LinkedHashMap<>() : null;
  }

  /**
   * The form of result rows: whether they have the columns of both sides, with NULL for a missing row, and
   * whether they have a row kind.
   */
  record JoinRows(InternalRow noLeft, InternalRow noRight, boolean pairs, boolean kinds) {
    static JoinRows of(int left, int right, boolean pairs, boolean kinds) {
      return new JoinRows(
          new GenericInternalRow(new Object[left]), new GenericInternalRow(new Object[right]), pairs, kinds);
    }
  }

  private record Result(UnsafeRow left, UnsafeRow right) {}

  private static final class Change {
    long count;
    boolean update;
  }

  /**
   * Adds the row of {@code left} and {@code right}, one of which may be null, {@code count} times. If the
   * count is negative, the row is retracted instead.
   */
  void change(UnsafeRow left, UnsafeRow right, long count, boolean update) {
    if (changes == null) {
      give(left, right, count, update);
      return;
    }
    Change change = changes.computeIfAbsent(new Result(left, right), each -> new Change());
    change.count += count;
    change.update = update;
  }

  /** Returns the changes, with retractions first. */
  List<InternalRow> rows() {
    if (changes != null) {
      changes.forEach((row, change) ->
          give(row.left(), row.right(), Math.min(change.count, 0), change.update));
      changes.forEach((row, change) ->
          give(row.left(), row.right(), Math.max(change.count, 0), change.update));
    }
    return rows;
  }

  private void give(UnsafeRow left, UnsafeRow right, long count, boolean update) {
    if (count == 0) {
      return;
    }
    InternalRow row = row(left, right);
    if (kinds) {
      byte added = update ? RowKind.UPDATE_AFTER : RowKind.INSERT,
          taken = update ? RowKind.UPDATE_BEFORE : RowKind.DELETE;
      row = new JoinedRow(row, KINDS[count > 0 ? added : taken]);
    }
    for (long given = Math.abs(count); given > 0; given--) {
      rows.add(row);
    }
  }

  private InternalRow row(UnsafeRow left, UnsafeRow right) {
    return pairs ? new JoinedRow(left == null ? noLeft : left, right == null ? noRight : right) : left;
  }
}
