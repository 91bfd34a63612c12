package freshtable.operators;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lookup join of rows that change: stores the results of each row, so that a retraction retracts exactly
 * these results, even if the table has changed.
 *
 * <p>The key is a whole stream row. For equal rows, any of the stored results is retracted.
 */
public final class LookupJoin extends RowKeeper {
  private static final long serialVersionUID = 1L;
  private static final DataType RESULTS = new ArrayType(DataTypes.BinaryType, false);

  private final PackedRow result;
  /** True if a row is emitted once, regardless of the number of table rows that it matches. */
  private final boolean once;

  LookupJoin(PackedRow result, boolean once, KeptState kept, int eventTime) {
    super(kept, eventTime);
    this.result = result;
    this.once = once;
  }

  /** A stream row that was added: its row kind and its join results. */
  private record Added(byte kind, List<byte[]> results) {}

  /**
   * Returns the plan of the join of a stream with a table. Its columns are those of the join, then the row
   * kind.
   *
   * @param stream the input that is the stream, 0 for the left and 1 for the right input, whose last column
   * is the row kind
   */
  public static LogicalPlan of(Join join, int stream, KeptState kept) {
    return new LookupPlan(join, stream).of(kept);
  }

  @Override
  List<DataType> types() {
    return List.of(new ArrayType(RESULTS, false));
  }

  @Override
  Iterator<InternalRow> changed(Iterator<InternalRow> rows) {
    Map<Long, Added> added = new TreeMap<>();
    int gone = 0;
    byte taken = RowKind.DELETE;
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      times.came(row);
      byte kind = row.getByte(LookupPlan.KIND);
      if (RowKind.adds(kind)) {
        add(row, added.computeIfAbsent(row.getLong(LookupPlan.ARRIVAL),
            each -> new Added(kind, new ArrayList<>())));
      } else {
        gone++;
        taken = kind;
      }
    }
    List<Added> come = new ArrayList<>(added.values());
    int both = Math.min(gone, come.size());
    return stored(come.subList(both, come.size()), gone - both, taken);
  }

  private void add(InternalRow row, Added to) {
    if (!row.isNullAt(LookupPlan.RESULT) && !(once && !to.results().isEmpty())) {
      to.results().add(row.getBinary(LookupPlan.RESULT));
    }
  }

  /**
   * Returns the changes made by equal rows of a batch: {@code come} are added, and {@code gone} is the number
   * of retracted rows.
   */
  private Iterator<InternalRow> stored(List<Added> come, int gone, byte taken) {
    InternalRow before = state.get();
    if (come.isEmpty() && gone == 0) {
      if (before != null) {
        state.read(before);
      }
      return Changes.none();
    }
    List<Object> copies = new ArrayList<>();
    for (int copy = 0; before != null && copy < before.getArray(0).numElements(); copy++) {
      copies.add(before.getArray(0).getArray(copy).copy());
    }
    List<InternalRow> changes = new ArrayList<>();
    // An expired result is not retracted.
    for (int copy = 0; copy < gone && !copies.isEmpty(); copy++) {
      give((ArrayData) copies.remove(copies.size() - 1), taken, changes);
    }
    for (Added each : come) {
      ArrayData results = new GenericArrayData(each.results().toArray());
      copies.add(results);
      give(results, each.kind(), changes);
    }
    if (!copies.isEmpty()) {
      state.update(new GenericInternalRow(new Object[] {new GenericArrayData(copies.toArray())}));
    } else if (before != null) {
      state.clear();
    }
    return CollectionConverters.asScala(changes.iterator());
  }

  private void give(ArrayData results, byte kind, List<InternalRow> changes) {
    InternalRow last = new GenericInternalRow(new Object[] {kind});
    for (int each = 0; each < results.numElements(); each++) {
      changes.add(new JoinedRow(result.unpack(results.getBinary(each)), last));
    }
  }
}
