package freshtable.operators;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.Iterator;

/** Top-N of append-only rows: the state contains only the rows with the leading numbers. */
public final class AddedRanks extends Ranks {
  private static final long serialVersionUID = 1L;
  private static final int SPARE = 64;

  private transient ExpiringRows<Long> state;

  private AddedRanks(RowShape shape, Ranking ranking, boolean numbered, KeptState kept) {
    super(shape, ranking, numbered, kept);
  }

  /**
   * Returns a changelog of the ranked rows of each of the {@code keys}.
   *
   * <p>Its columns are those of {@code child}, then the INT {@code number} if it is not null, and then the
   * row kind.
   */
  public static LogicalPlan of(
      LogicalPlan child, List<Expression> keys, Ranking ranking, Attribute number, KeptState kept) {
    LogicalPlan arrived = KeyedRows.numbered(child);
    RowShape shape = RowShape.of(child, false);
    AddedRanks processor = new AddedRanks(shape, ranking.bound(arrived), number != null, kept);
    return KeyedRows.transformed(arrived, keys, shape.output(child, number), processor);
  }

  @Override
  void open(KeyTimer keyTimer) {
    state =
        new ExpiringRows<>(
            getHandle(), kept.name(), Encoders.LONG(),
            UnaryOperator.identity(), List.of(shape.columns()), times, keyTimer);
  }

  @Override
  long removeExpired() {
    return state.removeExpired();
  }

  @Override
  Iterator<InternalRow> changed(Iterator<InternalRow> rows) {
    List<RankedRow> came = read(rows), all = new ArrayList<>();
    state.forEach((arrival, row) -> all.add(new RankedRow(stored.apply(row).copy(), 1, arrival)));
    long next = 0;
    for (RankedRow row : all) {
      next = Math.max(next, row.arrival + 1);
    }
    List<RankedRow> before = order.leading(all);
    came.sort(Comparator.comparingLong(row -> row.arrival));
    for (RankedRow row : came) {
      row.arrival = next++;
    }
    all.addAll(came);
    List<RankedRow> after = order.leading(all);
    write(before, after);
    return changes(order.ranked(before), order.ranked(after));
  }

  /** Returns the rows of a batch that may get a number. The result may contain other rows too. */
  private List<RankedRow> read(Iterator<InternalRow> rows) {
    List<RankedRow> found = new ArrayList<>();
    long most = 2L * ranking.last() + SPARE;
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      times.came(row);
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
        times.forget();
        times.came(row.row);
        state.put(row.arrival, row.row, null);
      }
    }
    for (RankedRow row : gone) {
      state.remove(row.arrival);
    }
  }
}
