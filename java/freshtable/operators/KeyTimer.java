package freshtable.operators;

import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TimeMode;
import scala.collection.Iterator;

/**
 * The single timer of a key, which removes expired entries. It is set to an expiry and registered again when
 * it fires.
 *
 * <p>It runs in the processor's time domain. Entries that expire in the other domain are removed when their
 * key comes again.
 */
final class KeyTimer {
  private static final long UNKNOWN = -1;

  private final StatefulProcessorHandle handle;
  private final boolean inEventTime;
  /** The instant of the current key's timer; NEVER without one. */
  private long due;
  /** An expiry of the key that the timer covers: it fires then or before. */
  private long covered;
  private final ExpiredEntries expired;

  KeyTimer(StatefulProcessorHandle handle, TimeMode time) {
    this.handle = handle;
    this.inEventTime = time.equals(TimeMode.EventTime());
    this.expired = ExpiredEntries.reportedBy(handle);
  }

  /** Starts with a key whose timer is known only to Spark. */
  void begin() {
    due = UNKNOWN;
    covered = TtlPolicy.NEVER;
  }

  /** Starts with a key whose timer fires {@code at} that instant; NEVER without a timer. */
  void begin(long at) {
    due = covered = at;
  }

  long due() {
    return due;
  }

  boolean inEventTime() {
    return inEventTime;
  }

  /** Records that a stored entry expires at that instant in the timers' domain, so a timer exists for it. */
  void covers(long expires) {
    covered = Math.min(covered, expires);
  }

  /** Makes the timer fire when an entry expires at that instant in the timers' domain, or before. */
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

  /** Records the removal of that many expired entries. */
  void expired(int entries) {
    expired.add(entries);
  }

  /** Records that the timer fired; the key needs it again at {@code next}, or never. */
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
