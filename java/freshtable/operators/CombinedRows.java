package freshtable.operators;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Aggregates the rows of a task by group before the shuffle, to one row of stored buffers per group. */
final class CombinedRows
    extends AbstractFunction1<scala.collection.Iterator<Object>,
    scala.collection.Iterator<Object>> implements Serializable {
  private static final long serialVersionUID = 1L;
  // After this number of groups, a task emits its rows and starts again, so a group may have several rows.
  private static final int GROUPS = 100_000;

  private final AggregateFeed feed;
  private final Attribute[] inputs;
  private final Attribute[] keys;

  CombinedRows(AggregateFeed feed, List<Attribute> inputs, List<Attribute> keys) {
    this.feed = feed;
    this.inputs = inputs.toArray(Attribute[]::new);
    this.keys = keys.toArray(Attribute[]::new);
  }

  @Override
  public scala.collection.Iterator<Object> apply(scala.collection.Iterator<Object> rows) {
    return CollectionConverters.asScala(new Groups(rows));
  }

  /** The combined rows of a task: the buffers, then the key. */
  private final class Groups implements Iterator<Object> {
    private final AggregateCode code = feed.compiled(AggregateCode.stored(feed.functions()), 0);
    private final UnsafeProjection key =
        UnsafeProjection.create(KeyedRows.<Expression>seq(List.of(keys)),
            KeyedRows.<Attribute>seq(List.of(inputs)));
    private final JoinedRow given = new JoinedRow();
    private final Map<UnsafeRow, InternalRow> groups = new HashMap<>();
    private final scala.collection.Iterator<Object> rows;
    private Iterator<Map.Entry<UnsafeRow, InternalRow>> left = groups.entrySet().iterator();

    Groups(scala.collection.Iterator<Object> rows) {
      this.rows = rows;
    }

    @Override
    public boolean hasNext() {
      if (!left.hasNext() && rows.hasNext()) {
        groups.clear();
        while (groups.size() < GROUPS && rows.hasNext()) {
          take((InternalRow) rows.next());
        }
        left = groups.entrySet().iterator();
      }
      return left.hasNext();
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new java.util.NoSuchElementException();
      }
      Map.Entry<UnsafeRow, InternalRow> group = left.next();
      return given.apply(code.stored(group.getValue()), group.getKey());
    }

    private void take(InternalRow row) {
      UnsafeRow group = key.apply(row);
      InternalRow buffers = groups.get(group);
      if (buffers == null) {
        buffers = code.begun();
        groups.put(group.copy(), buffers);
      }
      code.update(buffers, row);
    }
  }
}
