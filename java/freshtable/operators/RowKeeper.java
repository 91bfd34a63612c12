package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataType;
import scala.collection.Iterator;

/** A processor whose state is one row per key. */
abstract class RowKeeper extends ExpiringProcessor {
  private static final long serialVersionUID = 1L;

  final KeptState kept;
  private final int eventTime;
  transient ExpiringRow state;
  transient EntryTimes times;

  /** {@code eventTime} is the event time column of the input rows, or negative if they have none. */
  RowKeeper(KeptState kept, int eventTime) {
    this.kept = kept;
    this.eventTime = eventTime;
  }

  @Override
  public final void init(OutputMode mode, TimeMode time) {
    times = new EntryTimes(kept.policy(), eventTime);
    state = new ExpiringRow(getHandle(), kept.name(), types(), times, new KeyTimer(getHandle(), time));
    open();
  }

  @Override
  public final Iterator<InternalRow> handleInputRows(
      InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    times.begin(now);
    return changed(rows);
  }

  @Override
  final TimeMode timers() {
    return kept.policy().timeMode();
  }

  @Override
  final void expire(TimerValues now) {
    times.begin(now);
    state.ran(state.get());
  }

  /** Returns the column types of the stored row. */
  abstract List<DataType> types();

  /** Creates objects that all keys share. */
  void open() {}

  /** Returns the changes that the rows of a batch make for their key. */
  abstract Iterator<InternalRow> changed(Iterator<InternalRow> rows);
}
