package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * LIMIT and OFFSET of append-only rows: skips the first rows, passes the following ones up to the limit, and
 * drops all later rows.
 */
public final class LimitedRows extends RowKeeper {
  private static final long serialVersionUID = 1L;

  private final int first;
  private final int last;

  private LimitedRows(int first, int last, KeptState kept, int eventTime) {
    super(kept, eventTime);
    this.first = first;
    this.last = last;
  }

  /**
   * Returns a plan of the rows of each of the {@code keys} that are numbered {@code first} to {@code last},
   * counted from 1.
   */
  public static LogicalPlan of(
      LogicalPlan child, List<Expression> keys, int first, int last, KeptState kept) {
    List<Attribute> columns = CollectionConverters.asJava(child.output());
    int eventTime = EntryTimes.column(columns);
    // A task need not send more rows than the limit to the shuffle, although it must read all of them.
    boolean leads = last < Integer.MAX_VALUE && keys.stream().allMatch(Expression::foldable);
    LogicalPlan leading = leads
        ? LeadingRows.of(child, last, readsInEventTime(kept) ? eventTime : -1) : child;
    return KeyedRows.transformed(leading, keys, columns, new LimitedRows(first, last, kept, eventTime));
  }

  @Override
  List<DataType> types() {
    return List.of(DataTypes.LongType);
  }

  @Override
  Iterator<InternalRow> changed(Iterator<InternalRow> rows) {
    InternalRow stored = state.get();
    long before = stored == null ? 0 : stored.getLong(0), number = before;
    List<InternalRow> passed = new ArrayList<>();
    while (number < last && rows.hasNext()) {
      InternalRow row = rows.next();
      times.came(row);
      number++;
      if (number >= first) {
        passed.add(row.copy());
      }
    }
    // Rows beyond the limit also read the counter, but do not write it.
    while (readsInEventTime(kept) && rows.hasNext()) {
      times.came(rows.next());
    }
    if (number > before) {
      state.update(new GenericInternalRow(new Object[] {number}));
    } else if (stored != null) {
      state.read(stored);
    }
    return CollectionConverters.asScala(passed.iterator());
  }

  private static boolean readsInEventTime(KeptState kept) {
    return kept.policy().inEventTime() && kept.policy().byReads();
  }
}
