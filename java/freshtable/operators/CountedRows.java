package freshtable.operators;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The map of a feed: the count of each row in a group, and the changes that a batch passes to the functions.
 */
final class CountedRows {
  private static final InternalRow ADDED = new GenericInternalRow(new Object[] {true});
  private static final InternalRow TAKEN = new GenericInternalRow(new Object[] {false});

  private final AggregateFeed feed;
  private final ExpiringRows<InternalRow> counts;
  private final UnsafeProjection projection;
  private final int filter;
  private final int adds;
  private final Map<UnsafeRow, long[]> changes = new LinkedHashMap<>();
  private final JoinedRow input = new JoinedRow();

  /** {@code adds} is the input column that says whether a row is added, or negative if all rows are. */
  CountedRows(AggregateFeed feed, ExpiringRows<InternalRow> counts, List<Attribute> inputs, int adds) {
    this.feed = feed;
    this.counts = counts;
    this.adds = adds;
    projection =
        UnsafeProjection.create(KeyedRows.<Expression>seq(feed.columns()), KeyedRows.<Attribute>seq(inputs));
    filter = feed.filter() == null ? -1 : position(feed.filter(), inputs);
  }

  /** Removes the group of the current key. */
  void clear() {
    counts.clear();
  }

  /** Removes expired rows. Returns the next expiry in the time domain of the timers, or NEVER. */
  long removeExpired() {
    return counts.removeExpired();
  }

  /** Buffers a row of the batch. */
  void take(InternalRow row) {
    if (filter >= 0 && (row.isNullAt(filter) || !row.getBoolean(filter))) {
      return;
    }
    UnsafeRow counted = projection.apply(row);
    long[] change = changes.get(counted);
    if (change == null) {
      change = new long[1];
      changes.put(counted.copy(), change);
    }
    change[0] += adds < 0 || row.getBoolean(adds) ? 1 : -1;
  }

  /** Applies the buffered rows to the counts, and passes the changes to the functions. */
  void count(AggregateCode code, InternalRow buffers) {
    boolean gone = false;
    for (Map.Entry<UnsafeRow, long[]> each : changes.entrySet()) {
      gone |= changed(each.getKey(), each.getValue()[0], code, buffers);
    }
    changes.clear();
    if (gone) {
      again(code, buffers);
    }
  }

  /** Changes the count of a row. Returns whether the functions must receive all rows again. */
  private boolean changed(UnsafeRow row, long change, AggregateCode code, InternalRow buffers) {
    InternalRow counted = change == 0 ? null : counts.get(row);
    // The count of a retracted row may have expired.
    long before = counted == null ? 0 : counted.getLong(0), after = Math.max(0, before + change);
    if (after > 0 && change != 0) {
      counts.put(row, new GenericInternalRow(new Object[] {after}),
          counted == null ? null : counts.time(counted));
    } else if (before > 0 && change != 0) {
      counts.remove(row);
    }
    if (after == before || change == 0) {
      return false;
    }
    switch (feed.counting()) {
      case ALL_AGAIN -> see(row, after - before, code, buffers);
      case DISTINCT_AGAIN -> see(row, before == 0 ? 1 : 0, code, buffers);
      default -> {
        if (before == 0 || after == 0) {
          code.update(buffers, input(row, before == 0));
        }
        return false;
      }
    }
    return feed.counting() == AggregateFeed.Counting.ALL_AGAIN ? after < before : after == 0;
  }

  private void again(AggregateCode code, InternalRow buffers) {
    code.clear(buffers);
    boolean often = feed.counting() == AggregateFeed.Counting.ALL_AGAIN;
    counts.forEach((row, counted) -> see(row, often ? counted.getLong(0) : 1, code, buffers));
  }

  private void see(InternalRow row, long times, AggregateCode code, InternalRow buffers) {
    for (long time = 0; time < times; time++) {
      code.update(buffers, input(row, true));
    }
  }

  private InternalRow input(InternalRow row, boolean added) {
    return adds < 0 ? row : input.apply(row, added ? ADDED : TAKEN);
  }

  private static int position(Attribute column, List<Attribute> inputs) {
    for (int position = 0; position < inputs.size(); position++) {
      if (inputs.get(position).exprId().equals(column.exprId())) {
        return position;
      }
    }
    throw new IllegalArgumentException(column.toString());
  }
}
