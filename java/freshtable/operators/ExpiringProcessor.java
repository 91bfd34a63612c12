package freshtable.operators;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import scala.collection.Iterator;

/** A processor whose states expire by policies. One timer per key removes expired entries. */
abstract class ExpiringProcessor extends StatefulProcessor<InternalRow, InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;

  /** Returns the time domain of the timers. */
  abstract TimeMode timers();

  /** Removes the expired entries of the current key, whose timer has fired. */
  abstract void expire(TimerValues now);

  @Override
  public final Iterator<InternalRow> handleExpiredTimer(
      InternalRow key, TimerValues now, ExpiredTimerInfo timer) {
    expire(now);
    return Changes.none();
  }
}
