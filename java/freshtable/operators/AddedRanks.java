package freshtable.operators;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.Encoders;
import scala.Tuple2;
import scala.collection.Iterator;

/** Top-n of rows that are only added: of each key those with some of the first numbers in a ranking; no other one is kept. */
public final class AddedRanks extends StatefulProcessor<InternalRow, InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;
  private static final int SPARE = 64;

  private final RowShape shape;
  private final Ranking ranking;
  private final boolean numbered;
  private final KeptState kept;
  private transient MapState<Long, InternalRow> state;
  private transient UnsafeProjection content;
  private transient UnsafeProjection stored;
  private transient RankOrder order;

  private AddedRanks(RowShape shape, Ranking ranking, boolean numbered, KeptState kept) {
    this.shape = shape;
    this.ranking = ranking;
    this.numbered = numbered;
    this.kept = kept;
  }

  /**
   * Returns a changelog of the ranked rows of each of the {@code keys}.
   *
   * <p>Its columns are those of {@code child}; the INT {@code number}, unless it is null; and the kind.
   */
  public static LogicalPlan of(
      LogicalPlan child, List<Expression> keys, Ranking ranking, Attribute number, KeptState kept) {
    LogicalPlan arrived = KeyedRows.numbered(child);
    RowShape shape = RowShape.of(child, false);
    AddedRanks processor = new AddedRanks(shape, ranking.bound(arrived), number != null, kept);
    return KeyedRows.transformed(arrived, keys, shape.output(child, number), processor);
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    state = getHandle().getMapState(kept.name(), Encoders.LONG(), shape.encoder(), kept.ttl());
    content = shape.content();
    stored = shape.content();
    order = new RankOrder(ranking);
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    List<RankedRow> came = read(rows), all = new ArrayList<>();
    long next = 0;
    Iterator<Tuple2<Long, InternalRow>> entries = state.iterator();
    while (entries.hasNext()) {
      Tuple2<Long, InternalRow> entry = entries.next();
      all.add(new RankedRow(stored.apply(entry._2()).copy(), 1, entry._1()));
      next = Math.max(next, entry._1() + 1);
    }
    List<RankedRow> before = order.leading(all);
    came.sort(Comparator.comparingLong(row -> row.arrival));
    for (RankedRow row : came) {
      row.arrival = next++;
    }
    all.addAll(came);
    List<RankedRow> after = order.leading(all);
    write(before, after);
    return Changes.between(order.ranked(before), order.ranked(after), numbered ? ranking.first() : null);
  }

  /** Returns the rows of a batch, at least those that may have a number. */
  private List<RankedRow> read(Iterator<InternalRow> rows) {
    List<RankedRow> found = new ArrayList<>();
    long most = 2L * ranking.last() + SPARE;
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      found.add(new RankedRow(content.apply(row).copy(), 1, shape.arrival(row)));
      if (found.size() > most) {
        found = new ArrayList<>(order.leading(found));
      }
    }
    return found;
  }

  private void write(List<RankedRow> before, List<RankedRow> after) {
    Set<RankedRow> gone = new HashSet<>(before);
    for (RankedRow row : after) {
      if (!gone.remove(row)) {
        state.updateValue(row.arrival, row.row);
      }
    }
    for (RankedRow row : gone) {
      state.removeKey(row.arrival);
    }
  }
}
