package freshtable.operators;

import java.io.Serializable;
import org.apache.spark.sql.streaming.TimeMode;

/**
 * The expiry of a state's entries: {@code ttlMillis} after creation, or after the last access of a named
 * type, in event time or processing time.
 */
public record TtlPolicy(
    long ttlMillis, boolean byReads, boolean byWrites, boolean inEventTime) implements Serializable {
  /** The expiry of an entry that never expires. */
  static final long NEVER = Long.MAX_VALUE;

  /** A TTL of 100 years or more never expires. */
  private static final long FOR_EVER = 36_500L * 24 * 60 * 60 * 1000;

  /** Returns the time domain of timers in a processor that only has states of this policy. */
  TimeMode timeMode() {
    return inEventTime ? TimeMode.EventTime() : TimeMode.ProcessingTime();
  }

  /** Returns the instant at which an entry last modified {@code at} expires. */
  long expires(long at) {
    return ttlMillis < FOR_EVER ? at + ttlMillis : NEVER;
  }
}
