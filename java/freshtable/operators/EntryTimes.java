package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.TimestampType;

/**
 * When the entries of a state are modified and expire by a policy, at the key at hand.
 *
 * <p>An access comes at the time of the batch or, in event time, at that of the rows: the last one of them,
 * and the first one for a creation that no later access moves. An entry is stored with both times, so
 * that any policy can be applied to it. Which of the two times they are in is the lowest bit of the first:
 * of an entry in the other one the time begins when its key comes.
 */
final class EntryTimes {
  /** The columns that are stored with an entry. */
  static final List<DataType> TYPES = List.of(DataTypes.LongType, DataTypes.LongType);

  /** The event time of what has none. */
  static final long NONE = Long.MIN_VALUE;

  /** What the metadata of a column have that rows are late by. */
  static final String WATERMARK = "spark.watermarkDelayMs";

  private final TtlPolicy policy;
  private final int column;
  private long now;
  private long first;
  private long last;

  /** {@code column} is that of the rows with their event time; negative if they have none. */
  EntryTimes(TtlPolicy policy, int column) {
    this.policy = policy;
    this.column = policy.inEventTime() ? column : -1;
  }

  /** Returns which of the columns has the event time of the rows; -1 if none has a watermark. */
  static int column(List<Attribute> columns) {
    for (int position = 0; position < columns.size(); position++) {
      Attribute column = columns.get(position);
      if (column.metadata().contains(WATERMARK) && column.dataType() instanceof TimestampType) {
        return position;
      }
    }
    return -1;
  }

  /** Begins with a key, of which no row is at hand. */
  void begin(TimerValues values) {
    now = policy.inEventTime() ? values.getCurrentWatermarkInMs() : values.getCurrentProcessingTimeInMs();
    forget();
  }

  /** Says that no row is at hand any more. */
  void forget() {
    first = TtlPolicy.NEVER;
    last = NONE;
  }

  /** Says that a row is at hand, beside those that were. */
  void came(InternalRow row) {
    if (column >= 0) {
      came(eventTime(row, column));
    }
  }

  /** Says that a row with that event time is at hand, beside those that were. */
  void came(long at) {
    if (policy.inEventTime() && at != NONE) {
      last = Math.max(last, at);
      if (policy.expires(at) > now) {
        first = Math.min(first, at);
      }
    }
  }

  /** Returns the event time in a column of a row; NONE if the column is negative or NULL. */
  static long eventTime(InternalRow row, int column) {
    return column < 0 || row.isNullAt(column) ? NONE : Math.floorDiv(row.getLong(column), 1000L);
  }

  /** Returns the time of an entry, which stands in a row from that column on; null if it has expired. */
  EntryTime stored(InternalRow row, int position) {
    long modified = row.getLong(position), expires = row.getLong(position + 1);
    if ((modified & 1) != mark()) {
      return new EntryTime(now, policy.expires(now), false);
    }
    return expires <= now ? null : new EntryTime(modified >> 1, expires, true);
  }

  /** Returns the time of an entry once it was read. */
  EntryTime read(EntryTime time) {
    return policy.byReads() ? accessed(time) : time;
  }

  /**
   * Returns the time of an entry once it was written, {@code before} null for a new one;
   * null if it has expired already.
   */
  EntryTime written(EntryTime before) {
    if (before != null) {
      return policy.byWrites() ? accessed(before) : before;
    }
    return created(policy.byReads() || policy.byWrites());
  }

  /** Returns the time of a new entry that the rows at hand do not write again. */
  EntryTime writtenOnce() {
    return created(policy.byReads());
  }

  /** Returns what is stored of a time. */
  Object[] columns(EntryTime time, Object... more) {
    Object[] columns = new Object[2 + more.length];
    columns[0] = time.modified() << 1 | mark();
    columns[1] = time.expires();
    System.arraycopy(more, 0, columns, 2, more.length);
    return columns;
  }

  /** Returns when an entry expires in the time of the timers; NEVER if its time is the other one. */
  long expires(EntryTime time, KeyTimer timer) {
    return policy.inEventTime() == timer.inEventTime() ? time.expires() : TtlPolicy.NEVER;
  }

  private EntryTime created(boolean byLast) {
    long at = byLast || first == TtlPolicy.NEVER ? last : first;
    at = at == NONE ? now : at;
    long expires = policy.expires(at);
    return expires <= now ? null : new EntryTime(at, expires, false);
  }

  private EntryTime accessed(EntryTime time) {
    long at = last == NONE ? now : last;
    return at < time.modified() ? time : new EntryTime(at, policy.expires(at), false);
  }

  private long mark() {
    return policy.inEventTime() ? 1 : 0;
  }
}
