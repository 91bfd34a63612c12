package freshtable.operators;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.Iterator;

/**
 * Top-N of a changelog: the state contains all rows that were added and not retracted, because each of them
 * may move up when another row is retracted.
 *
 * <p>Equal rows share one entry in the ranking. The retraction of a row whose entry has expired has no
 * effect.
 */
public final class ChangedRanks extends Ranks {
  private static final long serialVersionUID = 1L;

  private transient ExpiringRows<InternalRow> state;

  private ChangedRanks(RowShape shape, Ranking ranking, boolean numbered, KeptState kept) {
    super(shape, ranking, numbered, kept);
  }

  /**
   * Returns a changelog of the ranked rows of each of the {@code keys}.
   *
   * <p>Its columns are those of {@code child}, whose last column is the row kind. If {@code number} is not
   * null, this INT column is inserted before the row kind.
   */
  public static LogicalPlan of(
      LogicalPlan child, List<Expression> keys, Ranking ranking, Attribute number, KeptState kept) {
    LogicalPlan arrived = KeyedRows.numbered(child);
    RowShape shape = RowShape.of(child, true);
    ChangedRanks processor = new ChangedRanks(shape, ranking.bound(arrived), number != null, kept);
    return KeyedRows.transformed(arrived, keys, shape.output(child, number), processor);
  }

  @Override
  void open(KeyTimer keyTimer) {
    state =
        new ExpiringRows<>(
            getHandle(), kept.name(), shape.encoder(),
            InternalRow::copy, List.of(DataTypes.LongType, DataTypes.LongType),
            times, keyTimer);
  }

  @Override
  long removeExpired() {
    return state.removeExpired();
  }

  @Override
  Iterator<InternalRow> changed(Iterator<InternalRow> rows) {
    List<RankedRow> changes = read(rows);
    if (changes.isEmpty()) {
      return Changes.none();
    }
    Map<UnsafeRow, RankedRow> all = new HashMap<>();
    state.forEach(
        (key, numbers) -> {
          UnsafeRow row = stored.apply(key).copy();
          RankedRow found = new RankedRow(row, numbers.getLong(0), numbers.getLong(1));
          found.time = state.time(numbers);
          all.put(row, found);
        });
    long next = 0;
    for (RankedRow row : all.values()) {
      next = Math.max(next, row.arrival + 1);
    }
    List<UnsafeRow> before = order.ranked(order.leading(all.values()));
    for (RankedRow change : changes) {
      change.arrival = next++;
      apply(change, all);
    }
    return changes(before, order.ranked(order.leading(all.values())));
  }

  /** Returns the net changes of a batch, in order of arrival. */
  private List<RankedRow> read(Iterator<InternalRow> rows) {
    Map<UnsafeRow, RankedRow> found = new HashMap<>();
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      times.came(row);
      int count = shape.adds(row) ? 1 : -1;
      UnsafeRow columns = content.apply(row);
      RankedRow change = found.get(columns);
      if (change == null) {
        UnsafeRow copy = columns.copy();
        found.put(copy, new RankedRow(copy, count, shape.arrival(row)));
      } else {
        change.count += count;
        change.arrival = Math.max(change.arrival, shape.arrival(row));
      }
    }
    List<RankedRow> changes = new ArrayList<>(found.values());
    changes.removeIf(change -> change.count == 0);
    changes.sort(Comparator.comparingLong(change -> change.arrival));
    return changes;
  }

  private void apply(RankedRow change, Map<UnsafeRow, RankedRow> all) {
    RankedRow present = all.get(change.row);
    if (present == null) {
      if (change.count < 0) {
        return;
      }
      present = new RankedRow(change.row, 0, change.arrival);
      all.put(change.row, present);
    }
    present.count += change.count;
    if (change.count > 0 && ranking.latestFirst()) {
      present.arrival = change.arrival;
    }
    if (present.count > 0) {
      times.forget();
      times.came(present.row);
      state.put(present.row, new GenericInternalRow(new Object[] {present.count, present.arrival}),
          present.time);
    } else {
      all.remove(present.row);
      state.remove(present.row);
    }
  }
}
