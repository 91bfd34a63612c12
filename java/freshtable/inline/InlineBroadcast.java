package freshtable.inline;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.BroadcastMode;
import org.apache.spark.sql.catalyst.plans.physical.BroadcastPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/** The smaller side of a join, computed within the joining task. Spark would run a job for its broadcast. */
final class InlineBroadcast extends SparkPlan {
  private static final long serialVersionUID = 1;
  private final transient BroadcastMode mode;
  private final transient SparkPlan child;

  InlineBroadcast(BroadcastMode mode, SparkPlan child) {
    this.mode = mode;
    this.child = child;
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return new BroadcastPartitioning(mode);
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new InlineBroadcast(mode, children.apply(0));
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int number) {
    return number == 0 ? mode : child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof InlineBroadcast;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    throw new UnsupportedOperationException("Only the rows as a whole are read of a broadcast.");
  }

  @Override
  @SuppressWarnings({"unchecked", "rawtypes"})
  public Broadcast doExecuteBroadcast() {
    return new Value(mode, child.execute());
  }

  /** The rows of a task, in the form in which the join looks them up. */
  private static final class Value extends Broadcast<Object> {
    private static final long serialVersionUID = 1;
    private static final long NO_ID = -1;
    private final transient BroadcastMode mode;
    private final transient RDD<InternalRow> rows;
    private transient Object value;

    Value(BroadcastMode mode, RDD<InternalRow> rows) {
      super(NO_ID, ClassTag.apply(Object.class));
      this.mode = mode;
      this.rows = rows;
    }

    /** Returns the rows. Not synchronized, because a plan runs only one task at a time. */
    @Override
    public Object getValue() {
      if (value == null) {
        TaskContext context = TaskContext.get();
        if (context == null) {
          throw new IllegalStateException("A join looks at the rows of a broadcast as it is planned.");
        }
        List<InternalRow> given = new ArrayList<>();
        for (Partition part : rows.partitions()) {
          scala.collection.Iterator<InternalRow> each = rows.iterator(part, context);
          while (each.hasNext()) {
            given.add(each.next().copy());
          }
        }
        value = mode.transform(given.toArray(InternalRow[]::new));
        context.addTaskCompletionListener((TaskCompletionListener) ended -> value = null);
      }
      return value;
    }

    @Override
    public void doUnpersist(boolean blocking) {}

    @Override
    public void doDestroy(boolean blocking) {}
  }
}
