package freshtable.operators;

import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TimeMode;
import scala.collection.Iterator;

/**
 * The one timer of a key, which removes what has expired: it stands at an expiry,
 * and is registered anew when it runs.
 *
 * <p>It runs in the time of the processor. What expires in the other time is removed
 * when its key comes again.
 */
final class KeyTimer {
  private static final long UNKNOWN = -1;

  private final StatefulProcessorHandle handle;
  private final boolean inEventTime;
  /** When the timer of the key at hand is due; NEVER without one. */
  private long due;
  /** An expiry of the key, at which or before which the timer is due. */
  private long covered;
  private final ExpiredEntries expired;

  KeyTimer(StatefulProcessorHandle handle, TimeMode time) {
    this.handle = handle;
    this.inEventTime = time.equals(TimeMode.EventTime());
    this.expired = ExpiredEntries.reportedBy(handle);
  }

  /** Begins with a key whose timer only Spark knows. */
  void begin() {
    due = UNKNOWN;
    covered = TtlPolicy.NEVER;
  }

  /** Begins with a key whose timer is due at that instant; NEVER if it has none. */
  void begin(long at) {
    due = covered = at;
  }

  long due() {
    return due;
  }

  boolean inEventTime() {
    return inEventTime;
  }

  /**
   * Says that the store has an entry which expires in that time of the timers: a timer is due then or before.
   */
  void covers(long expires) {
    covered = Math.min(covered, expires);
  }

  /** Lets the timer be due when an entry expires in that time of the timers, or before. */
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

  /** Says that so many entries are gone because they had expired. */
  void expired(int entries) {
    expired.add(entries);
  }

  /** Says that the timer ran; the key needs it again at that instant, or NEVER. */
  void ran(long next) {
    due = covered = next;
    if (next != TtlPolicy.NEVER) {
      handle.registerTimer(next);
    }
  }

  /** Takes the timer back. */
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
