package freshtable.files;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** All rows of few small Parquet files, in a plan of Spark's that reads a relation without rows in their place. */
public final class AllRows implements WholeFiles.Taker {
  private final List<InternalRow> rows = new ArrayList<>();
  private final int most;

  private AllRows(int most) {
    this.most = most;
  }

  /** Returns a relation without rows, of which a plan is made. */
  public static LocalRelation none(StructType columns) {
    Seq<Attribute> attributes =
        CollectionConverters.<Attribute>asScala(new ArrayList<>(CollectionConverters.asJava(DataTypeUtils.toAttributes(columns)))).toSeq();
    return new LocalRelation(attributes, rows(List.of()), false, Option.empty());
  }

  /**
   * Returns a plan with the rows of files in place of those of a relation, which is {@link #none} of the columns.
   *
   * <p>Null if a file cannot be read, stores a column in a way of its own, they have more than {@code most} rows, or the plan does
   * not have the relation at one place.
   */
  public static LogicalPlan filled(
      LogicalPlan plan, LocalRelation none, List<OpenedFile> files, StructType columns, int[] ids, int most) {
    AllRows all = new AllRows(most);
    WholeFiles whole = new WholeFiles(columns, ids);
    List<List<InternalRow>> read = ReadingThreads.all(List.of(() -> whole.read(files, all) ? all.rows : null));
    if (read == null) {
      return null;
    }
    Filled filled = new Filled(none, new LocalRelation(none.output(), rows(read.get(0)), false, Option.empty()));
    LogicalPlan given = plan.transformUpWithSubqueries(filled);
    return filled.places == 1 ? given : null;
  }

  private static Seq<InternalRow> rows(List<InternalRow> rows) {
    return CollectionConverters.asScala(rows).toSeq();
  }

  @Override
  public boolean takes(long further) {
    return rows.size() + further <= most;
  }

  @Override
  public void take(OpenedFile file, List<StoredColumn> stored, ReadBatches batches) {
    for (int row = 0; row < batches.size(); row++) {
      if (!file.isDeleted(batches.place(row))) {
        rows.add(row(stored, batches, row));
      }
    }
  }

  private static InternalRow row(List<StoredColumn> stored, ReadBatches batches, int row) {
    Object[] values = new Object[stored.size()];
    for (int column = 0; column < values.length; column++) {
      values[column] = stored.get(column).value(batches.column(column), row);
    }
    return new GenericInternalRow(values);
  }

  /** Puts a relation in the place of another one, which it knows by its first column. */
  private static final class Filled extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1;
    private final transient LocalRelation none;
    private final transient LocalRelation rows;
    private int places;

    Filled(LocalRelation none, LocalRelation rows) {
      this.none = none;
      this.rows = rows;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return plan instanceof LocalRelation relation
          && relation.output().nonEmpty()
          && relation.output().head().exprId().equals(none.output().head().exprId());
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      places++;
      return rows;
    }
  }
}
