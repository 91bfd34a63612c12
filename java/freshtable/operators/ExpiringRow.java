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
 * A state of one row a key, which is gone once it was not written for a while.
 *
 * <p>When that is stands in the row itself, so that a write is one write; Spark's own TTL moves an entry in an index as well. A key
 * has one timer, which removes the row or waits for its end again. Nothing waits for a row that is kept for ever.
 */
final class ExpiringRow {
  /** The milliseconds of 100 years, and more. */
  private static final long FOR_EVER = 36_500L * 24 * 60 * 60 * 1000;

  private final StatefulProcessorHandle handle;
  private final ValueState<InternalRow> state;
  private final DataType[] types;
  private final long ttlMillis;
  private final JoinedRow whole = new JoinedRow();
  /** When the timer of the current key is due; 0 without one. */
  private long timer;

  ExpiringRow(StatefulProcessorHandle handle, String name, List<DataType> types, long ttlMillis) {
    this.handle = handle;
    this.types = types.toArray(DataType[]::new);
    this.ttlMillis = ttlMillis;
    List<DataType> stored = new ArrayList<>(types);
    stored.add(DataTypes.LongType);
    stored.add(DataTypes.LongType);
    state = handle.getValueState(name, KeyedRows.stateEncoder(stored), TTLConfig.NONE());
  }

  /** Returns the row of the current key, with two columns of ours at its end; null if there is none at the time {@code now}. */
  InternalRow get(long now) {
    InternalRow row = state.get();
    timer = row == null ? 0 : row.getLong(types.length + 1);
    return row == null || row.getLong(types.length) <= now ? null : row;
  }

  /** Sets the row of the current key, after {@code get}. */
  void update(InternalRow row, long now) {
    long expires = now + ttlMillis;
    // A timer that is due comes after the rows of the batch, and sets the next one.
    if (ttlMillis < FOR_EVER && (timer == 0 || timer > expires)) {
      if (timer > now) {
        handle.deleteTimer(timer);
      }
      handle.registerTimer(expires);
      timer = expires;
    }
    state.update(whole.apply(row, times(expires)));
  }

  /** Removes the row of the current key, after {@code get}. */
  void clear() {
    if (timer != 0) {
      handle.deleteTimer(timer);
    }
    state.clear();
  }

  /** Removes the row of the current key, whose timer is due, if it is gone at the time {@code now}. */
  void due(long now) {
    InternalRow row = state.get();
    if (row == null) {
      return;
    }
    long expires = row.getLong(types.length);
    if (expires <= now) {
      state.clear();
      return;
    }
    timer = ttlMillis < FOR_EVER ? expires : 0;
    if (timer != 0) {
      handle.registerTimer(timer);
    }
    Object[] columns = new Object[types.length];
    for (int position = 0; position < types.length; position++) {
      columns[position] = row.get(position, types[position]);
    }
    state.update(whole.apply(new GenericInternalRow(columns), times(expires)));
  }

  private InternalRow times(long expires) {
    return new GenericInternalRow(new Object[] {expires, timer});
  }
}
