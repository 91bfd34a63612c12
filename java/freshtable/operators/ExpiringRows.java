package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.types.DataType;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * A map state per key, whose entries expire individually by a policy.
 *
 * <p>The expiry is stored in the entry, as in an {@link ExpiringRow}. The key has one timer for all entries.
 */
final class ExpiringRows<K> {
  private final MapState<K, InternalRow> state;
  private final UnaryOperator<K> copied;
  private final DataType[] types;
  private final EntryTimes times;
  private final KeyTimer timer;
  private final JoinedRow whole = new JoinedRow();

  /** {@code copied} copies the key of an entry, which is overwritten when the next entry is read. */
  ExpiringRows(
      StatefulProcessorHandle handle, String name,
      Encoder<K> keys, UnaryOperator<K> copied, List<DataType> types,
      EntryTimes times, KeyTimer timer) {
    this.copied = copied;
    this.types = types.toArray(DataType[]::new);
    this.times = times;
    this.timer = timer;
    List<DataType> stored = new ArrayList<>(types);
    stored.addAll(EntryTimes.TYPES);
    state = handle.getMapState(name, keys, KeyedRows.stateEncoder(stored), TTLConfig.NONE());
  }

  EntryTimes times() {
    return times;
  }

  /**
   * Returns an entry, followed by internal columns, and records a read. Returns null if there is no entry.
   */
  InternalRow get(K key) {
    InternalRow row = peek(key);
    return row == null ? null : keep(key, row, times.read(time(row)));
  }

  /** Returns an entry like {@link #get}, but does not record a read. Removes an expired entry. */
  InternalRow peek(K key) {
    InternalRow row = state.getValue(key);
    if (row != null && time(row) == null) {
      removeExpired(List.of(key));
      return null;
    }
    return row;
  }

  /**
   * Passes each entry, followed by internal columns, to {@code found} and records a read. Removes expired
   * entries.
   */
  void forEach(BiConsumer<K, InternalRow> found) {
    List<K> gone = new ArrayList<>();
    Iterator<Tuple2<K, InternalRow>> entries = state.iterator();
    while (entries.hasNext()) {
      Tuple2<K, InternalRow> entry = entries.next();
      EntryTime time = times.stored(entry._2(), types.length);
      K key = copied.apply(entry._1());
      if (time == null) {
        gone.add(key);
      } else {
        timer.covers(time.isStored() ? times.expires(time, timer) : TtlPolicy.NEVER);
        found.accept(key, keep(key, entry._2(), times.read(time)));
      }
    }
    removeExpired(gone);
  }

  /** Returns the times of an entry that another method has returned. */
  EntryTime time(InternalRow row) {
    return times.stored(row, types.length);
  }

  /** Sets an entry. {@code before} are its previous times, or null for a new entry. */
  void put(K key, InternalRow row, EntryTime before) {
    EntryTime time = times.written(before);
    if (time != null) {
      store(key, row, time);
    }
  }

  void remove(K key) {
    state.removeKey(key);
  }

  void clear() {
    state.clear();
  }

  /**
   * Removes the expired entries of the current key. Returns the next expiry in the time domain of the timers,
   * or NEVER.
   */
  long removeExpired() {
    List<K> gone = new ArrayList<>();
    long next = TtlPolicy.NEVER;
    Iterator<Tuple2<K, InternalRow>> entries = state.iterator();
    while (entries.hasNext()) {
      Tuple2<K, InternalRow> entry = entries.next();
      EntryTime time = times.stored(entry._2(), types.length);
      if (time == null) {
        gone.add(copied.apply(entry._1()));
      } else {
        // An entry stored under a policy in the other time domain counts as modified now.
        keep(copied.apply(entry._1()), entry._2(), time);
        next = Math.min(next, times.expires(time, timer));
      }
    }
    removeExpired(gone);
    return next;
  }

  private void removeExpired(List<K> gone) {
    gone.forEach(state::removeKey);
    timer.expired(gone.size());
  }

  /** Stores an entry again if its times differ from the stored ones. */
  private InternalRow keep(K key, InternalRow row, EntryTime time) {
    if (time.isStored()) {
      return row;
    }
    Object[] columns = new Object[types.length];
    for (int position = 0; position < types.length; position++) {
      columns[position] = row.get(position, types[position]);
    }
    return store(key, new GenericInternalRow(columns), time);
  }

  private InternalRow store(K key, InternalRow row, EntryTime time) {
    timer.before(times.expires(time, timer));
    whole.apply(row, new GenericInternalRow(times.columns(time)));
    state.updateValue(key, whole);
    return whole;
  }
}
