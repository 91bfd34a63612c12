package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import scala.collection.Iterator;

/**
 * The first row of each key in a ranking of append-only rows: deduplication, and a rank of 1.
 *
 * <p>For upserts, the last row of a key replaces or deletes the stored row. This converts upserts into a
 * changelog of complete rows. A deletion needs values only in its key columns.
 */
public final class SingleRows extends RowKeeper {
  private static final long serialVersionUID = 1L;

  private final RowShape shape;
  private final Ranking ranking;
  private transient UnsafeProjection content;
  private transient UnsafeProjection stored;
  private transient RankOrder order;

  private SingleRows(RowShape shape, Ranking ranking, KeptState kept) {
    super(kept, shape.eventTime());
    this.shape = shape;
    this.ranking = ranking;
  }

  /** Returns a changelog of the first row of each of the {@code keys} in the ranking. */
  public static LogicalPlan of(LogicalPlan child, List<Expression> keys, Ranking ranking, KeptState kept) {
    return of(child, keys, ranking, kept, RowShape.of(child, false));
  }

  /**
   * Returns a changelog of upserts. Each upsert sets or deletes the row of its key, depending on the row kind
   * in its last column.
   */
  public static LogicalPlan normalized(LogicalPlan child, List<Expression> keys, KeptState kept) {
    return of(child, keys, new Ranking(List.of(), true, 1, 1), kept, RowShape.of(child, true));
  }

  private static LogicalPlan of(
      LogicalPlan child, List<Expression> keys, Ranking ranking, KeptState kept, RowShape shape) {
    LogicalPlan arrived = KeyedRows.numbered(child);
    SingleRows processor = new SingleRows(shape, ranking.bound(arrived), kept);
    return KeyedRows.transformed(arrived, keys, shape.output(child, null), processor);
  }

  @Override
  List<DataType> types() {
    return List.of(shape.columns());
  }

  @Override
  void open() {
    content = shape.content();
    stored = shape.content();
    order = new RankOrder(ranking);
  }

  @Override
  Iterator<InternalRow> changed(Iterator<InternalRow> rows) {
    UnsafeRow found = null;
    long arrival = 0;
    boolean adds = true;
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      times.came(row);
      if (found == null || order.compare(row, shape.arrival(row), found, arrival) < 0) {
        found = content.apply(row).copy();
        arrival = shape.arrival(row);
        adds = shape.adds(row);
      }
    }
    if (found == null) {
      return Changes.none();
    }
    InternalRow row = state.get();
    UnsafeRow before = row == null ? null : stored.apply(row).copy();
    return adds ? replaced(before, found) : removed(before);
  }

  private Iterator<InternalRow> replaced(UnsafeRow before, UnsafeRow after) {
    // A row of this batch has arrived after the stored row.
    if (before != null && order.compare(after, 1, before, 0) > 0) {
      state.read(before);
      return Changes.none();
    }
    // Write the row even if it is equal, because the write sets the expiry of the state.
    state.update(after);
    Changes changes = new Changes();
    changes.replace(before, after);
    return changes.rows();
  }

  private Iterator<InternalRow> removed(UnsafeRow before) {
    if (before == null) {
      return Changes.none();
    }
    state.clear();
    Changes changes = new Changes();
    changes.replace(before, null);
    return changes.rows();
  }
}
