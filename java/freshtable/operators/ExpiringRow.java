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
 * A state of one row per key, which expires by a policy.
 *
 * <p>The expiry is stored in the row itself, so that a write is a single write. Spark's own TTL would also
 * move an entry in an index. The row also has the time of the key's timer. A row that does not expire has no
 * timer.
 */
final class ExpiringRow {
  private final ValueState<InternalRow> state;
  private final DataType[] types;
  private final EntryTimes times;
  private final KeyTimer timer;
  private final JoinedRow whole = new JoinedRow();
  private boolean isStored;
  /** True if the stored row of the current key has expired. */
  private boolean hasExpired;
  /** The times of the current key's row, or null if it has no row. */
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

  /** Returns the row of the current key, followed by internal columns, or null if it has no row. */
  InternalRow get() {
    InternalRow row = state.get();
    isStored = row != null;
    timer.begin(isStored ? row.getLong(types.length + EntryTimes.TYPES.size()) : TtlPolicy.NEVER);
    time = isStored ? times.stored(row, types.length) : null;
    hasExpired = isStored && time == null;
    return time == null ? null : row;
  }

  /** Returns whether {@code get} found an expired row, which it does not return. */
  boolean hasExpired() {
    return hasExpired;
  }

  /** Records a read of the row that {@code get} returned. */
  void read(InternalRow row) {
    time = times.read(time);
    if (!time.isStored()) {
      store(columns(row));
    }
  }

  /** Sets the row of the current key. Must be called after {@code get}. */
  void update(InternalRow row) {
    time = times.written(time == null ? null : times.read(time));
    store(row);
  }

  /**
   * Sets the row of a key that has none, if no other current row writes it again. Must be called after
   * {@code get}.
   */
  void create(InternalRow row) {
    time = times.writtenOnce();
    store(row);
  }

  /** Removes the row of the current key. Must be called after {@code get}. */
  void clear() {
    timer.delete();
    countExpired();
    state.clear();
  }

  /**
   * Handles the timer of a key that has no other state: removes the row if it has expired, or sets the timer
   * again.
   */
  void ran(InternalRow row) {
    ran(row, TtlPolicy.NEVER);
  }

  /** Handles the timer of a key with other states, whose earliest expiry is {@code next}. */
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

  /** Counts an expired row only once, when it is overwritten or removed. */
  private void countExpired() {
    if (hasExpired) {
      timer.expired(1);
      hasExpired = false;
    }
  }

  private InternalRow stored() {
    return new GenericInternalRow(times.columns(time, timer.due()));
  }

  /** Returns a stored row without its internal columns. */
  private InternalRow columns(InternalRow row) {
    Object[] columns = new Object[types.length];
    for (int position = 0; position < types.length; position++) {
      columns[position] = row.get(position, types[position]);
    }
    return new GenericInternalRow(columns);
  }
}
