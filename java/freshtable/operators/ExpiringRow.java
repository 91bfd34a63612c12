package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A state of one row a key, which expires by a policy.
 *
 * <p>When that is stands in the row itself, so that a write is one write; Spark's own TTL moves
 * an entry in an index as well. The row also has the time of the key's timer. Nothing waits for a
 * row that is kept for ever.
 */
final class ExpiringRow {
  private final ValueState<InternalRow> state;
  private final DataType[] types;
  private final EntryTimes times;
  private final KeyTimer timer;
  private final JoinedRow whole = new JoinedRow();
  private boolean isStored;
  /** Whether the row of the key at hand is stored and has expired. */
  private boolean hasExpired;
  /** That of the row of the key at hand; null if there is none. */
  private EntryTime time;

  ExpiringRow(
      StatefulProcessorHandle handle, String name, List<DataType> types, EntryTimes times, KeyTimer timer) {
    this.types = types.toArray(DataType[]::new);
    this.times = times;
    this.timer = timer;
    List<DataType> stored = new ArrayList<>(types);
    stored.addAll(EntryTimes.TYPES);
    stored.add(DataTypes.LongType);
    state = handle.getValueState(name, KeyedRows.stateEncoder(stored), TTLConfig.NONE());
  }

  /** Returns the row of the key at hand, with columns of ours at its end; null if there is none. */
  InternalRow get() {
    InternalRow row = state.get();
    isStored = row != null;
    timer.begin(isStored ? row.getLong(types.length + EntryTimes.TYPES.size()) : TtlPolicy.NEVER);
    time = isStored ? times.stored(row, types.length) : null;
    hasExpired = isStored && time == null;
    return time == null ? null : row;
  }

  /** Returns whether {@code get} found a row that has expired. */
  boolean hasExpired() {
    return hasExpired;
  }

  /** Notes that the row was read which {@code get} gave. */
  void read(InternalRow row) {
    time = times.read(time);
    if (!time.isStored()) {
      store(columns(row));
    }
  }

  /** Sets the row of the key at hand, after {@code get}. */
  void update(InternalRow row) {
    time = times.written(time == null ? null : times.read(time));
    store(row);
  }

  /** Sets the row of a key without one, after {@code get}; no other row at hand writes it again. */
  void create(InternalRow row) {
    time = times.writtenOnce();
    store(row);
  }

  /** Removes the row of the key at hand, after {@code get}. */
  void clear() {
    timer.delete();
    countExpired();
    state.clear();
  }

  /** Removes the row that {@code get} gave when the timer ran for it alone, or waits for its end again. */
  void ran(InternalRow row) {
    ran(row, TtlPolicy.NEVER);
  }

  /** Does the same beside other states of the key, of which one expires {@code next}. */
  void ran(InternalRow row, long next) {
    if (row == null) {
      countExpired();
      state.clear();
      return;
    }
    timer.ran(Math.min(next, times.expires(time, timer)));
    state.update(whole.apply(columns(row), stored()));
  }

  private void store(InternalRow row) {
    if (time != null) {
      countExpired();
      timer.before(times.expires(time, timer));
      state.update(whole.apply(row, stored()));
    } else if (isStored) {
      clear();
    }
  }

  /** Counts the row that {@code get} hid, once, where it is overwritten or removed. */
  private void countExpired() {
    if (hasExpired) {
      timer.expired(1);
      hasExpired = false;
    }
  }

  private InternalRow stored() {
    return new GenericInternalRow(times.columns(time, timer.due()));
  }

  /** Returns the columns of a stored row without ours. */
  private InternalRow columns(InternalRow row) {
    Object[] columns = new Object[types.length];
    for (int position = 0; position < types.length; position++) {
      columns[position] = row.get(position, types[position]);
    }
    return new GenericInternalRow(columns);
  }
}
