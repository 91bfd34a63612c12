package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import scala.collection.Iterator;

/**
 * Top-N: the rows of each key with the leading numbers of a ranking. The state depends on the kind of input.
 */
abstract class Ranks extends ExpiringProcessor {
  private static final long serialVersionUID = 1L;

  final RowShape shape;
  final Ranking ranking;
  final KeptState kept;
  private final boolean numbered;
  transient EntryTimes times;
  transient UnsafeProjection content;
  transient UnsafeProjection stored;
  transient RankOrder order;
  private transient KeyTimer timer;

  /** {@code ranking} is bound to the rows. {@code numbered} means that emitted rows contain their number. */
  Ranks(RowShape shape, Ranking ranking, boolean numbered, KeptState kept) {
    this.shape = shape;
    this.ranking = ranking;
    this.numbered = numbered;
    this.kept = kept;
  }

  @Override
  public final void init(OutputMode mode, TimeMode time) {
    times = new EntryTimes(kept.policy(), shape.eventTime());
    timer = new KeyTimer(getHandle(), time);
    content = shape.content();
    stored = shape.content();
    order = new RankOrder(ranking);
    open(timer);
  }

  @Override
  public final Iterator<InternalRow> handleInputRows(
      InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    timer.begin();
    times.begin(now);
    return changed(rows);
  }

  @Override
  final TimeMode timers() {
    return kept.policy().timeMode();
  }

  @Override
  final void expire(TimerValues now) {
    timer.begin();
    times.begin(now);
    timer.ran(removeExpired());
  }

  /** Opens the state. */
  abstract void open(KeyTimer keyTimer);

  /** Returns the changes that the rows of a batch make for their key. */
  abstract Iterator<InternalRow> changed(Iterator<InternalRow> rows);

  /** Removes expired entries. Returns the next expiry in the time domain of the timers, or NEVER. */
  abstract long removeExpired();

  /** Returns the changes from the ranked rows {@code before} to {@code after}. */
  final Iterator<InternalRow> changes(List<UnsafeRow> before, List<UnsafeRow> after) {
    return Changes.between(before, after, numbered ? ranking.first() : null);
  }
}
