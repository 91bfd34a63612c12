package freshtable.inline;

import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.memory.SparkOutOfMemoryError;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.DoNotCleanup$;
import org.apache.spark.sql.execution.ExecSubqueryExpression;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.OneRowRelationExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.python.BatchEvalPythonExec;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * A physical plan over {@link InlineLeaf leaves} that is made once and run again for each change,
 * in the calling thread.
 *
 * <p>To plan a query, to make its code and to start its job takes Spark some hundred milliseconds; to run a
 * plan over a hundred rows takes it one or two. So the plan is kept. Its {@link SparkPlan#execute} gives the
 * same RDD each time, whose only part a task reads any number of times; the code of its stages is compiled
 * once. What makes that right:
 *
 * <ul>
 *   <li><b>One part.</b> All rows of a leaf are in one part. Where several come together, Spark exchanges
 *       rows, so that those of a key are in one part; with one part, that holds by itself, and each exchange
 *       becomes a {@link CoalesceExec}.
 *   <li><b>No job.</b> A plan is refused that starts one as it runs: a subquery that is still one
 *       in the physical plan, an exchange that is not known here, a batch of Python's by Arrow.
 *   <li><b>Nothing of one run is in the plan.</b> The optimizer writes the current time into it, a random
 *       function has its seed, a scan of a table has its snapshot: such plans are refused. The code of a join
 *       with a broadcast depends on the rows of it (whether keys are unique, whether there is any), so stages
 *       with one run without code.
 * </ul>
 *
 * <p>A plan runs once at a time: its leaves have the rows of the run, and its expressions may have a state.
 */
public final class InlinePlan {
  private static final Set<String> CURRENT = Set.of("CURRENT_LIKE", "EXPRESSION_WITH_RANDOM_SEED");
  /** Why no plan runs inline with this release of Spark; null if plans do. */
  private static volatile String unusable;
  private static final long BYTES_OF_OPERATOR = 20_000;
  private static final long BYTES_OF_EXPRESSION = 2_000;
  private final Properties settings;
  private final RDD<InternalRow> rows;
  private final StructType columns;
  private final long size;
  private final Lock lock = new ReentrantLock();

  /** Why a plan takes a job. */
  public static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;

    Refused(String reason) {
      super(reason, null, false, false);
    }
  }

  /** A run gives more than the thread holds: a job is to do it, and the next ones. */
  public static final class TooMuch extends RuntimeException {
    private static final long serialVersionUID = 1;

    TooMuch(String reason) {
      super(reason, null, false, false);
    }
  }

  /** A run has got no turn or no memory: a job is to do this one. */
  public static final class NotNow extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotNow(String reason) {
      super(reason, null, false, false);
    }
  }

  private InlinePlan(Properties settings, SparkPlan plan, StructType columns) {
    this.settings = settings;
    this.rows = plan.execute();
    this.columns = columns;
    this.size = size(plan);
  }

  /**
   * Plans a query over leaves.
   *
   * @throws Refused if the query takes a job, or a plan of it cannot be kept
   */
  public static InlinePlan of(Dataset<Row> query) {
    if (unusable != null) {
      throw new Refused(unusable);
    }
    SparkSession session = query.sparkSession();
    try {
      // A node of a plan is of the session that is active when it is made.
      return session.withActive(() -> made(session, query));
    } catch (Refused refused) {
      throw refused;
    } catch (Exception | LinkageError | AssertionError | StackOverflowError cause) {
      // Nothing has been read. If it is an error of the query, the job has it too.
      throw new Refused(cause.toString());
    }
  }

  private static InlinePlan made(SparkSession session, Dataset<Row> query) {
    LogicalPlan analyzed = query.queryExecution().analyzed();
    for (String pattern : CURRENT) {
      if (analyzed.containsPattern(TreePattern.withName(pattern))) {
        throw new Refused("a function gives another value in each run");
      }
    }
    SparkPlan plan = single(planned(session, analyzed));
    check(plan, session.sparkContext().isLocal());
    InlinePlan made = new InlinePlan(settings(session), plan, query.schema());
    checkNarrow(made.rows);
    return made;
  }

  /**
   * Runs a join without rows; returns why this release of Spark runs no plan, and then refuses all.
   * Null if it does.
   */
  public static String probe(SparkSession session) {
    try {
      StructType columns = new StructType().add("a", "int");
      Dataset<Row> some = InlineLeaf.relation(session, columns);
      Dataset<Row> others = InlineLeaf.relation(session, columns);
      // The first code that a JVM compiles decides how much of it is kept, by the settings of the session
      // that is active.
      Rows none = session.withActive(() -> new Rows(columns));
      of(some.join(functions.broadcast(others), "a"))
          .run(Map.of(InlineLeaf.of(some), none, InlineLeaf.of(others), none), 0, 0);
    } catch (NotNow busy) {
      // Others run them.
    } catch (Exception | LinkageError cause) {
      unusable = cause.toString();
    }
    return unusable;
  }

  /**
   * Plans as Spark does a subquery: without adaptive execution, which runs jobs,
   * and with no exchange used twice.
   */
  private static SparkPlan planned(SparkSession session, LogicalPlan analyzed) {
    QueryExecution execution =
        new QueryExecution(
            session,
            analyzed,
            new QueryPlanningTracker(Option.empty()),
            CommandExecutionMode.ALL(),
            DoNotCleanup$.MODULE$,
            false);
    return QueryExecution.prepareExecutedPlan(session, execution.sparkPlan());
  }

  /** Returns a plan all of which is in one part. */
  private static SparkPlan single(SparkPlan made) {
    SparkPlan plan = made.transformUp(new Together());
    if (plan.exists(InlineBroadcast.class::isInstance)) {
      plan = plan.transformUp(new Interpreted());
    }
    return plan.outputPartitioning().numPartitions() == 1 ? plan : new CoalesceExec(1, plan);
  }

  private static Properties settings(SparkSession session) {
    Properties settings = new Properties();
    CollectionConverters.asJava(session.sessionState().conf().getAllConfs())
        .forEach((key, value) -> settings.setProperty(key, value));
    return settings;
  }

  private static void check(SparkPlan plan, boolean local) {
    for (Expression each : CollectionConverters.asJava(plan.expressions())) {
      if (each.exists(ExecSubqueryExpression.class::isInstance)) {
        throw new Refused("a subquery stays in the plan");
      }
      if (each.exists(InlinePlan::isOfHive)) {
        throw new Refused("tasks would share the object of a function of Hive");
      }
    }
    if (plan instanceof Exchange || isForeignLeaf(plan) || isPython(plan, local)) {
      throw new Refused(plan.nodeName());
    }
    if (plan instanceof InlineBroadcast) {
      checkNarrow(plan.children().head().execute());
    }
    for (SparkPlan each : CollectionConverters.asJava(plan.children())) {
      check(each, local);
    }
  }

  private static boolean isOfHive(Expression expression) {
    return expression.getClass().getName().startsWith("org.apache.spark.sql.hive.");
  }

  /**
   * Refuses what exchanges rows without a node that says so: no stage has written what the task would read.
   */
  private static void checkNarrow(RDD<?> rdd) {
    for (Dependency<?> each : CollectionConverters.asJava(rdd.dependencies())) {
      if (each instanceof ShuffleDependency) {
        throw new Refused("an operator exchanges rows by itself");
      }
      checkNarrow(each.rdd());
    }
  }

  /**
   * Returns whether a leaf has rows of its own that the next run could not have, or that nobody has counted.
   */
  private static boolean isForeignLeaf(SparkPlan plan) {
    boolean ours = plan instanceof RDDScanExec scan && (RDD<?>) scan.rdd() instanceof InlineLeaf;
    boolean fixed = plan instanceof LocalTableScanExec || plan instanceof OneRowRelationExec;
    return plan.children().isEmpty() && !ours && !fixed;
  }

  /**
   * Returns whether a plan takes a Python that is not here: Arrow's batches, and on a cluster
   * that of the executors.
   */
  private static boolean isPython(SparkPlan plan, boolean local) {
    Class<?> type = plan.getClass();
    boolean rowByRow = plan instanceof BatchEvalPythonExec && local;
    return type.getPackage().equals(BatchEvalPythonExec.class.getPackage()) && !rowByRow;
  }

  /** Estimates how many bytes of the heap a plan and its code take. */
  private static long size(SparkPlan plan) {
    long size = BYTES_OF_OPERATOR;
    for (Expression each : CollectionConverters.asJava(plan.expressions())) {
      size += size(each);
    }
    for (SparkPlan each : CollectionConverters.asJava(plan.children())) {
      size += size(each);
    }
    return size;
  }

  private static long size(Expression expression) {
    long size = BYTES_OF_EXPRESSION;
    for (Expression each : CollectionConverters.asJava(expression.children())) {
      size += size(each);
    }
    return size;
  }

  public StructType columns() {
    return columns;
  }

  public long size() {
    return size;
  }

  /**
   * Runs the plan over rows of its leaves, for the job that the thread works for.
   *
   * @throws TooMuch if it gives more than {@code mostRows} rows or {@code mostBytes}
   * @throws NotNow if its task gets no turn or no memory
   */
  public Rows run(Map<InlineLeaf, Iterable<InternalRow>> given, int mostRows, long mostBytes)
      throws Exception {
    try {
      return InlineTask.run(ofThread(), lock, context -> drained(context, given, mostRows, mostBytes));
    } catch (SparkOutOfMemoryError cause) {
      throw new NotNow(cause.getMessage());
    }
  }

  /** Returns the settings of the plan with what the thread says of its job. */
  private Properties ofThread() {
    Properties properties = new Properties();
    properties.putAll(rows.sparkContext().getLocalProperties());
    properties.putAll(settings);
    return properties;
  }

  private Rows drained(
      TaskContext context, Map<InlineLeaf, Iterable<InternalRow>> given, int mostRows, long mostBytes) {
    given.forEach(InlineLeaf::give);
    try {
      return drained(context, mostRows, mostBytes);
    } finally {
      given.keySet().forEach(leaf -> leaf.give(null));
    }
  }

  private Rows drained(TaskContext context, int mostRows, long mostBytes) {
    Rows result = new Rows(columns);
    for (Partition part : rows.partitions()) {
      scala.collection.Iterator<InternalRow> each = rows.iterator(part, context);
      while (each.hasNext()) {
        result.add(each.next());
        if (result.size() > mostRows || result.bytes() > mostBytes) {
          throw new TooMuch("It gives more than " + mostRows + " rows or " + mostBytes + " bytes.");
        }
      }
    }
    return result;
  }

  /**
   * All rows are in one part: what exchanges rows only brings parts together,
   * and a broadcast is a value of this process.
   */
  private static final class Together extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1;

    @Override
    public boolean isDefinedAt(SparkPlan plan) {
      return plan instanceof ShuffleExchangeExec || plan instanceof BroadcastExchangeExec;
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
      return plan instanceof BroadcastExchangeExec broadcast
          ? new InlineBroadcast(broadcast.mode(), broadcast.child())
          : new CoalesceExec(1, ((ShuffleExchangeExec) plan).child());
    }
  }

  /** Without the code of its stages. */
  private static final class Interpreted extends AbstractPartialFunction<SparkPlan, SparkPlan> {
    private static final long serialVersionUID = 1;

    @Override
    public boolean isDefinedAt(SparkPlan plan) {
      return plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter;
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
      return plan.children().head();
    }
  }
}
