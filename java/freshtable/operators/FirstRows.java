package freshtable.operators;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Deduplication: passes the first row of each key, and drops later rows until the state of the key expires.
 */
public final class FirstRows extends RowKeeper {
  private static final long serialVersionUID = 1L;

  private FirstRows(KeptState kept, int eventTime) {
    super(kept, eventTime);
  }

  /** Returns a plan of the first row of each of the {@code keys}, with the columns of {@code child}. */
  public static LogicalPlan of(LogicalPlan child, List<Expression> keys, KeptState kept) {
    FirstRows processor = new FirstRows(kept, EntryTimes.column(CollectionConverters.asJava(child.output())));
    return KeyedRows.transformed(child, keys, CollectionConverters.asJava(child.output()), processor);
  }

  @Override
  List<DataType> types() {
    return List.of();
  }

  @Override
  Iterator<InternalRow> changed(Iterator<InternalRow> rows) {
    if (!rows.hasNext()) {
      return Changes.none();
    }
    InternalRow before = state.get(), first = before == null ? rows.next().copy() : null;
    if (first != null) {
      times.came(first);
    }
    while (kept.policy().inEventTime() && rows.hasNext()) {
      times.came(rows.next());
    }
    if (before != null) {
      state.read(before);
      return Changes.none();
    }
    state.create(new GenericInternalRow(0));
    return scala.collection.Iterator$.MODULE$.single(first);
  }
}
