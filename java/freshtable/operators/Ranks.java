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
 * Top-n: of each key the rows with some of the first numbers in a ranking.
 * What is kept for it depends on the input.
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

  /**
   * {@code ranking} is bound to the rows; {@code numbered} says whether those that are given
   * have their number.
   */
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

  /** Returns what the rows of a batch change for their key. */
  abstract Iterator<InternalRow> changed(Iterator<InternalRow> rows);

  /** Removes what has expired; returns when the next entry does in the time of the timers, or NEVER. */
  abstract long removeExpired();

  /** Returns what is given if {@code before} were the ranked rows and {@code after} are. */
  final Iterator<InternalRow> changes(List<UnsafeRow> before, List<UnsafeRow> after) {
    return Changes.between(before, after, numbered ? ranking.first() : null);
  }
}
