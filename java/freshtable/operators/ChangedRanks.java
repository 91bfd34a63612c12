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
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataTypes;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Top-n of changes: of each key the rows with some of the first numbers in a ranking, of those that have come and were not taken
 * back. All are kept, as another one may come in the place of each.
 *
 * <p>Rows that are equal stand together in the ranking. One that is taken back and is not there, since it has expired, changes
 * nothing.
 */
public final class ChangedRanks extends StatefulProcessor<InternalRow, InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;

  private final RowShape shape;
  private final Ranking ranking;
  private final boolean numbered;
  private final KeptState kept;
  private transient MapState<InternalRow, InternalRow> state;
  private transient UnsafeProjection content;
  private transient UnsafeProjection stored;
  private transient RankOrder order;

  private ChangedRanks(RowShape shape, Ranking ranking, boolean numbered, KeptState kept) {
    this.shape = shape;
    this.ranking = ranking;
    this.numbered = numbered;
    this.kept = kept;
  }

  /**
   * Returns a changelog of the ranked rows of each of the {@code keys}.
   *
   * <p>Its columns are those of {@code child}, whose last one is the kind; before the kind the INT {@code number}, unless it is null.
   */
  public static LogicalPlan of(
      LogicalPlan child, List<Expression> keys, Ranking ranking, Attribute number, KeptState kept) {
    LogicalPlan arrived = KeyedRows.numbered(child);
    RowShape shape = RowShape.of(child, true);
    ChangedRanks processor = new ChangedRanks(shape, ranking.bound(arrived), number != null, kept);
    return KeyedRows.transformed(arrived, keys, shape.output(child, number), processor);
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    state =
        getHandle().getMapState(
            kept.name(), shape.encoder(), KeyedRows.stateEncoder(List.of(DataTypes.LongType, DataTypes.LongType)), kept.ttl());
    content = shape.content();
    stored = shape.content();
    order = new RankOrder(ranking);
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    List<RankedRow> changes = read(rows);
    if (changes.isEmpty()) {
      return Changes.none();
    }
    Map<UnsafeRow, RankedRow> all = new HashMap<>();
    long next = 0;
    Iterator<Tuple2<InternalRow, InternalRow>> entries = state.iterator();
    while (entries.hasNext()) {
      Tuple2<InternalRow, InternalRow> entry = entries.next();
      UnsafeRow row = stored.apply(entry._1()).copy();
      long arrival = entry._2().getLong(1);
      all.put(row, new RankedRow(row, entry._2().getLong(0), arrival));
      next = Math.max(next, arrival + 1);
    }
    List<UnsafeRow> before = order.ranked(order.leading(all.values()));
    for (RankedRow change : changes) {
      change.arrival = next++;
      apply(change, all);
    }
    return Changes.between(before, order.ranked(order.leading(all.values())), numbered ? ranking.first() : null);
  }

  /** Returns what a batch changes in the end, in the order of arrival. */
  private List<RankedRow> read(Iterator<InternalRow> rows) {
    Map<UnsafeRow, RankedRow> found = new HashMap<>();
    while (rows.hasNext()) {
      InternalRow row = rows.next();
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
      state.updateValue(present.row, new GenericInternalRow(new Object[] {present.count, present.arrival}));
    } else {
      all.remove(present.row);
      state.removeKey(present.row);
    }
  }
}
