package freshtable.operators;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** The order of a ranking, in which the first row is the smallest. */
final class RankOrder implements Comparator<RankedRow> {
  private final Ranking ranking;
  private final Comparator<InternalRow> byColumns;

  RankOrder(Ranking ranking) {
    this.ranking = ranking;
    this.byColumns = ranking.byColumns();
  }

  @Override
  public int compare(RankedRow left, RankedRow right) {
    return compare(left.row, left.arrival, right.row, right.arrival);
  }

  int compare(InternalRow left, long leftArrival, InternalRow right, long rightArrival) {
    int compared = byColumns.compare(left, right);
    if (compared != 0) {
      return compared;
    }
    return ranking.latestFirst()
        ? Long.compare(rightArrival, leftArrival) : Long.compare(leftArrival, rightArrival);
  }

  /** Returns the rows with the numbers from 1 to the last number of the ranking, in order. */
  List<RankedRow> leading(Collection<RankedRow> rows) {
    List<RankedRow> found = new ArrayList<>(first(rows));
    found.sort(this);
    long number = 0;
    for (int position = 0; position < found.size(); position++) {
      if (number >= ranking.last()) {
        return found.subList(0, position);
      }
      number += found.get(position).count;
    }
    return found;
  }

  /**
   * Returns the contents of the {@code leading} rows within the ranking's numbers, repeated by their counts.
   */
  List<UnsafeRow> ranked(List<RankedRow> leading) {
    List<UnsafeRow> found = new ArrayList<>();
    long number = 0;
    for (RankedRow row : leading) {
      for (long copy = 0; copy < row.count && number < ranking.last(); copy++) {
        number++;
        if (number >= ranking.first()) {
          found.add(row.row);
        }
      }
    }
    return found;
  }

  /**
   * Returns at least the rows with the leading numbers, in no particular order. Each may count several times.
   */
  private Collection<RankedRow> first(Collection<RankedRow> rows) {
    if (rows.size() <= ranking.last()) {
      return rows;
    }
    PriorityQueue<RankedRow> best = new PriorityQueue<>(ranking.last() + 1, reversed());
    for (RankedRow row : rows) {
      if (best.size() < ranking.last()) {
        best.add(row);
      } else if (compare(row, best.peek()) < 0) {
        best.poll();
        best.add(row);
      }
    }
    return best;
  }
}
