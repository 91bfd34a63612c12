package freshtable.operators;

import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TimeMode;
import scala.collection.Iterator;

/**
 * The single timer of a key, which removes expired entries. It is set to the next expiry, and set again when
 * it fires.
 *
 * <p>It runs in the time domain of the processor. Entries that expire in the other domain are removed when
 * the next row with their key arrives.
 */
final class KeyTimer {
  private static final long UNKNOWN = -1;

  private final StatefulProcessorHandle handle;
  private final boolean inEventTime;
  /** The instant of the current key's timer, or NEVER if it has none. */
  private long due;
  /** An expiry of the key that the timer covers, because it fires at that time or earlier. */
  private long covered;
  private final ExpiredEntries expired;

  KeyTimer(StatefulProcessorHandle handle, TimeMode time) {
    this.handle = handle;
    this.inEventTime = time.equals(TimeMode.EventTime());
    this.expired = ExpiredEntries.reportedBy(handle);
  }

  /** Starts to handle a key whose timer is known only to Spark. */
  void begin() {
    due = UNKNOWN;
    covered = TtlPolicy.NEVER;
  }

  /** Starts to handle a key whose timer fires at the instant {@code at}, or NEVER if it has no timer. */
  void begin(long at) {
    due = covered = at;
  }

  long due() {
    return due;
  }

  boolean inEventTime() {
    return inEventTime;
  }

  /** Records that a stored entry expires at this instant in the timers' domain, so that it has a timer. */
  void covers(long expires) {
    covered = Math.min(covered, expires);
  }

  /** Sets the timer so that it fires no later than {@code expires}, an instant in the timers' domain. */
  void before(long expires) {
    if (expires >= covered) {
      return;
    }
    find();
    if (due > expires) {
      if (due != TtlPolicy.NEVER) {
        handle.deleteTimer(due);
      }
      handle.registerTimer(expires);
      due = expires;
    }
    covered = due;
  }

  /** Records that this number of expired entries has been removed. */
  void expired(int entries) {
    expired.add(entries);
  }

  /** Records that the timer has fired. The key needs it again at the instant {@code next}, or NEVER. */
  void ran(long next) {
    due = covered = next;
    if (next != TtlPolicy.NEVER) {
      handle.registerTimer(next);
    }
  }

  /** Deletes the timer. */
  void delete() {
    if (due != TtlPolicy.NEVER) {
      handle.deleteTimer(due);
      due = covered = TtlPolicy.NEVER;
    }
  }

  private void find() {
    if (due == UNKNOWN) {
      due = TtlPolicy.NEVER;
      Iterator<Object> timers = handle.listTimers();
      while (timers.hasNext()) {
        due = Math.min(due, (Long) timers.next());
      }
    }
  }
}
