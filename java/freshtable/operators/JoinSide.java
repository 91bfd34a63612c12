package freshtable.operators;

import java.io.Serializable;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * One input of a join: the rows of the current key, with their counts and their numbers of matches in the
 * other input.
 *
 * <p>Numbers of matches are stored and not counted again, because matched rows of the other input may have
 * expired.
 */
final class JoinSide implements Serializable {
  private static final long serialVersionUID = 1L;

  private final KeptState kept;
  private final StructType type;
  private final int eventTime;
  private transient ExpiringRows<InternalRow> state;
  private transient EntryTimes times;
  /** True if the key's timer runs in the time domain of this side's policy. */
  private transient boolean hasTimer;
  private transient Map<UnsafeRow, Entry> entries;
  private transient Map<UnsafeRow, Change> changes;
  private transient boolean loaded;
  /** The latest event time in the batch. */
  private transient long last;

  /** {@code eventTime} is the event time column of the rows, or negative if they have none. */
  JoinSide(KeptState kept, StructType type, int eventTime) {
    this.kept = kept;
    this.type = type;
    this.eventTime = eventTime;
  }

  /** A group of equal input rows. */
  static final class Entry {
    final UnsafeRow row;
    long count;
    long matches;
    private EntryTime stored;
    private boolean changed;
    private boolean came;

    private Entry(UnsafeRow row) {
      this.row = row;
    }

    /** Sets new numbers, which differ from the stored numbers. */
    void change(long newCount, long newMatches) {
      came |= newCount != count;
      count = newCount;
      matches = newMatches;
      changed = true;
    }
  }

  /**
   * The net number of equal rows that a batch adds. It is negative if the batch retracts more rows than it
   * adds.
   */
  static final class Change {
    final UnsafeRow row;
    long count;
    boolean update;

    private Change(UnsafeRow row) {
      this.row = row;
    }
  }

  int size() {
    return type.size();
  }

  TtlPolicy policy() {
    return kept.policy();
  }

  void init(StatefulProcessorHandle handle, KeyTimer timer) {
    times = new EntryTimes(kept.policy(), eventTime);
    state =
        new ExpiringRows<>(
            handle, kept.name(), KeyedRows.structEncoder(type), InternalRow::copy,
            List.of(DataTypes.LongType, DataTypes.LongType), times, timer);
    hasTimer = kept.policy().inEventTime() == timer.inEventTime();
  }

  /** Starts to handle the next key. */
  void begin(TimerValues now) {
    times.begin(now);
    if (!hasTimer) {
      state.removeExpired();
    }
    entries = new LinkedHashMap<>();
    changes = new LinkedHashMap<>();
    loaded = false;
    last = EntryTimes.NONE;
  }

  /** Records a row of the batch with its kind. */
  void change(UnsafeRow row, byte kind) {
    last = Math.max(last, EntryTimes.eventTime(row, eventTime));
    Change change = changes.get(row);
    if (change == null) {
      UnsafeRow kept = row.copy();
      change = new Change(kept);
      changes.put(kept, change);
    }
    change.count += RowKind.adds(kind) ? 1 : -1;
    change.update = RowKind.updates(kind);
  }

  Collection<Change> changes() {
    return changes.values();
  }

  /** Reads all rows of the key, because rows of the {@code other} side may match them. */
  void load(JoinSide other) {
    times.came(other.last);
    state.forEach((row, numbers) -> put((UnsafeRow) row, numbers));
    loaded = true;
  }

  /** Returns the rows that were loaded or added. */
  Collection<Entry> entries() {
    return entries.values();
  }

  /** Returns the entry of {@code row}, or null if the state has none. */
  Entry entry(UnsafeRow row) {
    Entry entry = entries.get(row);
    if (entry != null || loaded) {
      return entry;
    }
    InternalRow numbers = state.peek(row);
    return numbers == null ? null : put(row, numbers);
  }

  /** Returns a new entry for {@code row}, which must not be in the state yet. */
  Entry newEntry(UnsafeRow row) {
    Entry entry = new Entry(row);
    entries.put(row, entry);
    return entry;
  }

  /** Stores the entries that rows of either side have changed. */
  void store(JoinSide other) {
    for (Entry entry : entries.values()) {
      times.forget();
      times.came(entry.came ? EntryTimes.eventTime(entry.row, eventTime) : other.last);
      if (entry.changed && entry.count > 0) {
        state.put(entry.row, new GenericInternalRow(new Object[] {entry.count, entry.matches}), entry.stored);
      } else if (entry.changed && entry.stored != null) {
        state.remove(entry.row);
      }
    }
  }

  /** Removes expired rows. Returns the next expiry in the time domain of the timers, or NEVER. */
  long removeExpired(TimerValues now) {
    times.begin(now);
    return state.removeExpired();
  }

  private Entry put(UnsafeRow row, InternalRow numbers) {
    Entry entry = newEntry(row);
    entry.stored = state.time(numbers);
    entry.count = numbers.getLong(0);
    entry.matches = numbers.getLong(1);
    return entry;
  }
}
