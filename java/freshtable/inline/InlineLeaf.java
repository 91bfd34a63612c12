package freshtable.inline;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/**
 * A single-partition relation whose rows are supplied for each run of a plan.
 *
 * <p>Spark plans it like any RDD. If it were known to be empty, the optimizer would remove everything that
 * reads it. All rows are in one partition, so aggregates, windows and sorts over it need no exchange.
 */
public final class InlineLeaf extends RDD<InternalRow> {
  private static final long serialVersionUID = 1;
  private transient volatile Iterable<InternalRow> rows;

  private record OnlyPart(int index) implements Partition {}

  private InlineLeaf(SparkSession session) {
    super(session.sparkContext(), CollectionConverters.asScala(List.<Dependency<?>>of()).toSeq(),
        ClassTag.apply(InternalRow.class));
  }

  /** Returns a relation with the given columns, over a new leaf. */
  public static Dataset<Row> relation(SparkSession session, StructType columns) {
    List<Attribute> attributes =
        new ArrayList<>(CollectionConverters.asJava(DataTypeUtils.toAttributes(columns)));
    LogicalRDD relation =
        new LogicalRDD(
            CollectionConverters.asScala(attributes).toSeq(),
            new InlineLeaf(session),
            SinglePartition$.MODULE$,
            CollectionConverters.asScala(List.<SortOrder>of()).toSeq(),
            false,
            Option.empty(),
            session,
            Option.empty(),
            Option.empty());
    return Dataset.ofRows(session, relation);
  }

  /** Returns the leaf of a relation. */
  public static InlineLeaf of(Dataset<Row> relation) {
    return (InlineLeaf) (RDD<?>) ((LogicalRDD) relation.queryExecution().analyzed()).rdd();
  }

  void give(Iterable<InternalRow> given) {
    rows = given;
  }

  /** Returns the rows of the run. An interrupted task stops reading. */
  @Override
  public scala.collection.Iterator<InternalRow> compute(Partition part, TaskContext context) {
    return new InterruptibleIterator<>(context, CollectionConverters.asScala(rows.iterator()));
  }

  @Override
  public Partition[] getPartitions() {
    return new Partition[] {new OnlyPart(0)};
  }
}
