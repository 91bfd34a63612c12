package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.TimestampType;

/**
 * The modification and expiry times of a state's entries for the current key, under a policy.
 *
 * <p>In processing time, an access happens at the time of the batch. In event time, it happens at the latest
 * time of the current rows. The creation of an entry that is not accessed later happens at their earliest
 * time. An entry is stored with both of its times, so that any policy can be applied to it. The lowest bit of
 * the modification time is its time domain. An entry in the other domain counts as modified when the next row
 * with its key arrives.
 */
final class EntryTimes {
  /** The columns stored with an entry. */
  static final List<DataType> TYPES = List.of(DataTypes.LongType, DataTypes.LongType);

  /** A missing event time. */
  static final long NONE = Long.MIN_VALUE;

  /** The key in a column's metadata by which Spark marks a watermark. */
  static final String WATERMARK = "spark.watermarkDelayMs";

  private final TtlPolicy policy;
  private final int column;
  private long now;
  private long first;
  private long last;

  /** {@code column} is the event time column of the rows, or negative if they have none. */
  EntryTimes(TtlPolicy policy, int column) {
    this.policy = policy;
    this.column = policy.inEventTime() ? column : -1;
  }

  /** Returns the position of the event time column, or -1 if no column has a watermark. */
  static int column(List<Attribute> columns) {
    for (int position = 0; position < columns.size(); position++) {
      Attribute column = columns.get(position);
      if (column.metadata().contains(WATERMARK) && column.dataType() instanceof TimestampType) {
        return position;
      }
    }
    return -1;
  }

  /** Starts to handle a key, without current rows. */
  void begin(TimerValues values) {
    now = policy.inEventTime() ? values.getCurrentWatermarkInMs() : values.getCurrentProcessingTimeInMs();
    forget();
  }

  /** Clears the current rows. */
  void forget() {
    first = TtlPolicy.NEVER;
    last = NONE;
  }

  /** Adds a row to the current rows. */
  void came(InternalRow row) {
    if (column >= 0) {
      came(eventTime(row, column));
    }
  }

  /** Adds a row with this event time to the current rows. */
  void came(long at) {
    if (policy.inEventTime() && at != NONE) {
      last = Math.max(last, at);
      if (policy.expires(at) > now) {
        first = Math.min(first, at);
      }
    }
  }

  /** Returns the event time of a row, or NONE if there is no event time column or its value is NULL. */
  static long eventTime(InternalRow row, int column) {
    return column < 0 || row.isNullAt(column) ? NONE : Math.floorDiv(row.getLong(column), 1000L);
  }

  /** Returns the times of an entry, stored in a row from {@code position} on, or null if it has expired. */
  EntryTime stored(InternalRow row, int position) {
    long modified = row.getLong(position), expires = row.getLong(position + 1);
    if ((modified & 1) != mark()) {
      return new EntryTime(now, policy.expires(now), false);
    }
    return expires <= now ? null : new EntryTime(modified >> 1, expires, true);
  }

  /** Returns the times of an entry after a read. */
  EntryTime read(EntryTime time) {
    return policy.byReads() ? accessed(time) : time;
  }

  /**
   * Returns the times of an entry after a write, or null if it has already expired. {@code before} are its
   * previous times, or null for a new entry.
   */
  EntryTime written(EntryTime before) {
    if (before != null) {
      return policy.byWrites() ? accessed(before) : before;
    }
    return created(policy.byReads() || policy.byWrites());
  }

  /** Returns the times of a new entry that the current rows do not write again. */
  EntryTime writtenOnce() {
    return created(policy.byReads());
  }

  /** Returns the columns that store the times, followed by {@code more}. */
  Object[] columns(EntryTime time, Object... more) {
    Object[] columns = new Object[2 + more.length];
    columns[0] = time.modified() << 1 | mark();
    columns[1] = time.expires();
    System.arraycopy(more, 0, columns, 2, more.length);
    return columns;
  }

  /** Returns the expiry of an entry if it is in the time domain of the timers, or NEVER if not. */
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
