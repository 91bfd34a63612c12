package freshtable.operators;

import java.io.Serializable;
import org.apache.spark.sql.streaming.TimeMode;

/**
 * The expiry of a state's entries: {@code ttlMillis} after their creation or after their last access, in
 * event time or processing time.
 *
 * <p>{@code byReads} and {@code byWrites} say which accesses count.
 */
public record TtlPolicy(
    long ttlMillis, boolean byReads, boolean byWrites, boolean inEventTime) implements Serializable {
  /** The expiry of an entry that never expires. */
  static final long NEVER = Long.MAX_VALUE;

  /** Entries with a TTL of 100 years or more never expire. */
  private static final long FOR_EVER = 36_500L * 24 * 60 * 60 * 1000;

  /** Returns the time domain of timers in a processor whose states all have this policy. */
  TimeMode timeMode() {
    return inEventTime ? TimeMode.EventTime() : TimeMode.ProcessingTime();
  }

  /** Returns the instant at which an entry expires if it was last modified at the instant {@code at}. */
  long expires(long at) {
    return ttlMillis < FOR_EVER ? at + ttlMillis : NEVER;
  }
}
