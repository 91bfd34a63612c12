package freshtable.operators;

import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Regular join: each row of one input is joined with all matching rows of the other, whenever they arrive.
 *
 * <p>The state of each side has its rows by join key, with a count of equal rows. If the join type emits
 * unmatched rows, it also has the number of matches of each row. A row of an outer, semi or anti join is
 * emitted as a single row while this number is zero (or positive, for a semi join), so each change of the
 * number may retract or emit the row.
 *
 * <p>A batch is applied in an order that makes the result independent of the order of its rows: first the
 * retractions of both sides, then the additions. Changes that cancel out within the batch are not emitted.
 * When a row expires, the results that contain it are not retracted, and the stored numbers of matches still
 * include it.
 */
public final class RegularJoin extends ExpiringProcessor {
  private static final long serialVersionUID = 1L;

  private final JoinKind kind;
  private final JoinSide[] sides;
  private final boolean[] alone;
  private final boolean kinds;
  /** True if an input has retractions. */
  private final boolean takesOut;
  /**
   * The condition over the columns of the left row, followed by those of the right row. Null if all rows of a
   * key match.
   */
  private final Expression condition;
  private transient KeyTimer timer;
  private transient BasePredicate matches;
  private transient JoinedRow pair;
  private transient JoinResult.JoinRows shape;

  RegularJoin(JoinKind kind, JoinSide left, JoinSide right, Expression condition, boolean takesOut) {
    this.kind = kind;
    this.sides = new JoinSide[] {left, right};
    this.alone = new boolean[] {kind.left, kind.right};
    this.condition = condition;
    this.takesOut = takesOut;
    this.kinds = takesOut || kind.takesBack();
  }

  /**
   * Returns the plan of a join of two streams. Its columns are those of the join, then the row kind if the
   * result has retractions.
   *
   * @param kinds whether the left and the right input have the row kind as their last column
   * @param policies the policies by which rows of the inputs expire
   */
  public static LogicalPlan of(Join join, List<Boolean> kinds, List<TtlPolicy> policies) {
    return new JoinPlan(join, kinds).of(policies);
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    timer = new KeyTimer(getHandle(), time);
    for (JoinSide side : sides) {
      side.init(getHandle(), timer);
    }
    if (condition != null) {
      matches = Predicate$.MODULE$.create(condition);
      matches.initialize(TaskContext.getPartitionId());
    }
    pair = new JoinedRow();
    shape = JoinResult.JoinRows.of(sides[0].size(), sides[1].size(), kind.pairs, kinds);
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    return key.anyNull() ? unmatched(rows) : joined(rows, now);
  }

  @Override
  TimeMode timers() {
    // If the time domains of the two policies differ, timers run in processing time, which needs no
    // watermark.
    return sides[0].policy().inEventTime() ? sides[1].policy().timeMode() : TimeMode.ProcessingTime();
  }

  @Override
  void expire(TimerValues now) {
    timer.begin();
    timer.ran(Math.min(sides[0].removeExpired(now), sides[1].removeExpired(now)));
  }

  /** Returns the result of rows whose key is NULL, which is not equal to any key. */
  private Iterator<InternalRow> unmatched(Iterator<InternalRow> rows) {
    if (takesOut) {
      JoinResult result = new JoinResult(shape, true);
      while (rows.hasNext()) {
        changeUnmatched(rows.next(), result);
      }
      return CollectionConverters.asScala(result.rows().iterator());
    }
    return rows.flatMap(
        row -> {
          JoinResult result = new JoinResult(shape, false);
          changeUnmatched(row, result);
          return CollectionConverters.asScala(result.rows());
        });
  }

  private void changeUnmatched(InternalRow row, JoinResult result) {
    byte rowKind = row.getByte(JoinPlan.KIND);
    int count = RowKind.adds(rowKind) ? 1 : -1;
    changeAlone(row.getByte(JoinPlan.SIDE), row(row).copy(), 0, count, RowKind.updates(rowKind), result);
  }

  private Iterator<InternalRow> joined(Iterator<InternalRow> rows, TimerValues now) {
    timer.begin();
    sides[0].begin(now);
    sides[1].begin(now);
    boolean combined = kind.left || kind.right;
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      byte rowKind = row.getByte(JoinPlan.KIND);
      sides[row.getByte(JoinPlan.SIDE)].change(row(row), rowKind);
      combined |= !RowKind.adds(rowKind);
    }
    for (int side = 0; side < 2; side++) {
      if (!sides[1 - side].changes().isEmpty()) {
        sides[side].load(sides[1 - side]);
      }
    }
    JoinResult result = new JoinResult(shape, combined);
    for (int side = 0; side < 2; side++) {
      for (JoinSide.Change change : sides[side].changes()) {
        if (change.count < 0) {
          takeOut(side, change, result);
        }
      }
    }
    for (int side = 0; side < 2; side++) {
      for (JoinSide.Change change : sides[side].changes()) {
        if (change.count > 0) {
          add(side, change, result);
        }
      }
    }
    sides[0].store(sides[1]);
    sides[1].store(sides[0]);
    return CollectionConverters.asScala(result.rows().iterator());
  }

  private void add(int side, JoinSide.Change change, JoinResult result) {
    long found = 0;
    for (JoinSide.Entry other : sides[1 - side].entries()) {
      if (other.count > 0 && match(side, change.row, other.row)) {
        found += other.count;
        changePairs(side, change.row, other, change.count, change.update, result);
        changeMatches(1 - side, other, change.count, result);
      }
    }
    JoinSide.Entry own = sides[side].entry(change.row);
    own = own == null ? sides[side].newEntry(change.row) : own;
    own.change(own.count + change.count, alone[side] ? found : 0);
    changeAlone(side, change.row, found, change.count, change.update, result);
  }

  private void takeOut(int side, JoinSide.Change change, JoinResult result) {
    long found = 0, count = -change.count;
    for (JoinSide.Entry other : sides[1 - side].entries()) {
      if (other.count > 0 && match(side, change.row, other.row)) {
        // Rows that arrived after this row had expired were never paired with it.
        long paired = alone[1 - side] ? Math.min(count, other.matches) : count;
        found += other.count;
        changePairs(side, change.row, other, -paired, change.update, result);
        changeMatches(1 - side, other, -paired, result);
      }
    }
    JoinSide.Entry own = sides[side].entry(change.row);
    if (own != null) {
      found = alone[side] ? own.matches : found;
      own.change(Math.max(own.count - count, 0), own.matches);
    }
    changeAlone(side, change.row, found, -count, change.update, result);
  }

  private void changePairs(
      int side, UnsafeRow row, JoinSide.Entry other, long count, boolean update, JoinResult result) {
    if (kind.pairs) {
      boolean named = update && kind == JoinKind.INNER;
      result.change(side == 0 ? row : other.row, side == 0 ? other.row : row, count * other.count, named);
    }
  }

  /**
   * Changes the number of matches of an {@code entry}. Emits or retracts the entry as a single row if the
   * change requires it.
   */
  private void changeMatches(int side, JoinSide.Entry entry, long count, JoinResult result) {
    if (!alone[side] || count == 0) {
      return;
    }
    boolean before = kind.givesAlone(entry.matches);
    entry.change(entry.count, entry.matches + count);
    boolean after = kind.givesAlone(entry.matches);
    if (before != after) {
      give(side, entry.row, after ? entry.count : -entry.count, false, result);
    }
  }

  /** Emits a single row {@code count} times, if the join emits single rows with {@code found} matches. */
  private void changeAlone(
      int side, UnsafeRow row, long found, long count, boolean update, JoinResult result) {
    if (alone[side] && kind.givesAlone(found)) {
      give(side, row, count, update && !kind.pairs, result);
    }
  }

  private static void give(int side, UnsafeRow row, long count, boolean update, JoinResult result) {
    result.change(side == 0 ? row : null, side == 0 ? null : row, count, update);
  }

  private boolean match(int side, UnsafeRow row, UnsafeRow other) {
    return matches == null || matches.eval(pair.apply(side == 0 ? row : other, side == 0 ? other : row));
  }

  private UnsafeRow row(InternalRow given) {
    int side = given.getByte(JoinPlan.SIDE);
    return (UnsafeRow) given.getStruct(JoinPlan.ROWS + side, sides[side].size());
  }
}
