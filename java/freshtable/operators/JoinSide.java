package freshtable.operators;

import java.io.Serializable;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * One input of a join: the rows of the key at hand with their number, and how many rows of the other input each one matches.
 *
 * <p>Numbers of matches are kept, and not counted: a row of the other input that has expired was matched all the same.
 */
final class JoinSide implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String name;
  private final StructType type;
  private final long ttlMillis;
  private transient MapState<InternalRow, InternalRow> state;
  private transient Map<UnsafeRow, Entry> entries;
  private transient Map<UnsafeRow, Change> changes;
  private transient boolean loaded;

  JoinSide(String name, StructType type, long ttlMillis) {
    this.name = name;
    this.type = type;
    this.ttlMillis = ttlMillis;
  }

  /** Equal rows of the input. */
  static final class Entry {
    final UnsafeRow row;
    long count;
    long matches;
    private boolean stored;
    private boolean changed;

    private Entry(UnsafeRow row) {
      this.row = row;
    }

    /** Says that the numbers are others than those stored. */
    void change(long newCount, long newMatches) {
      count = newCount;
      matches = newMatches;
      changed = true;
    }
  }

  /** How many equal rows a batch adds, or takes out if the number is negative. */
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

  void init(StatefulProcessorHandle handle) {
    state =
        handle.getMapState(
            name, KeyedRows.structEncoder(type), KeyedRows.stateEncoder(List.of(DataTypes.LongType, DataTypes.LongType)),
            new TTLConfig(Duration.ofMillis(ttlMillis)));
  }

  /** Begins with the next key. */
  void begin() {
    entries = new LinkedHashMap<>();
    changes = new LinkedHashMap<>();
    loaded = false;
  }

  /** Notes that a batch has a row of that kind. */
  void change(UnsafeRow row, byte kind) {
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

  /** Reads all rows of the key: those that rows of the other side may match. */
  void load() {
    Iterator<Tuple2<InternalRow, InternalRow>> stored = state.iterator();
    while (stored.hasNext()) {
      Tuple2<InternalRow, InternalRow> next = stored.next();
      put(((UnsafeRow) next._1()).copy(), next._2());
    }
    loaded = true;
  }

  /** Returns the rows that were read or added. */
  Collection<Entry> entries() {
    return entries.values();
  }

  /** Returns the rows equal to {@code row}; null if the state has none. */
  Entry entry(UnsafeRow row) {
    Entry entry = entries.get(row);
    if (entry != null || loaded) {
      return entry;
    }
    InternalRow numbers = state.getValue(row);
    return numbers == null ? null : put(row, numbers);
  }

  /** Returns the rows equal to {@code row}, none of which is in the state yet. */
  Entry newEntry(UnsafeRow row) {
    Entry entry = new Entry(row);
    entries.put(row, entry);
    return entry;
  }

  /** Writes what has changed; the rows that were written live on from now. */
  void store() {
    for (Entry entry : entries.values()) {
      if (entry.changed && entry.count > 0) {
        state.updateValue(entry.row, new GenericInternalRow(new Object[] {entry.count, entry.matches}));
      } else if (entry.changed && entry.stored) {
        state.removeKey(entry.row);
      }
    }
  }

  private Entry put(UnsafeRow row, InternalRow numbers) {
    Entry entry = newEntry(row);
    entry.stored = true;
    entry.count = numbers.getLong(0);
    entry.matches = numbers.getLong(1);
    return entry;
  }
}
