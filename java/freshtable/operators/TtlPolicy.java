package freshtable.operators;

import java.io.Serializable;
import org.apache.spark.sql.streaming.TimeMode;

/**
 * When an entry of a state is gone: {@code ttlMillis} after it was created, or after the last access
 * that the policy names, in event time or in processing time.
 */
public record TtlPolicy(
    long ttlMillis, boolean byReads, boolean byWrites, boolean inEventTime) implements Serializable {
  /** The expiry of what is kept for ever. */
  static final long NEVER = Long.MAX_VALUE;

  /** The milliseconds of 100 years, and more. */
  private static final long FOR_EVER = 36_500L * 24 * 60 * 60 * 1000;

  /** Returns the time of the timers of a processor that has states of this policy alone. */
  TimeMode timeMode() {
    return inEventTime ? TimeMode.EventTime() : TimeMode.ProcessingTime();
  }

  /** Returns the instant at which an entry that was last modified {@code at} has expired. */
  long expires(long at) {
    return ttlMillis < FOR_EVER ? at + ttlMillis : NEVER;
  }
}
