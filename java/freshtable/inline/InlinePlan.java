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
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.DoNotCleanup$;
import org.apache.spark.sql.execution.ExecSubqueryExpression;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.OneRowRelationExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.python.BatchEvalPythonExec;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A physical plan over {@link InlineLeaf leaves} that is created once and run again for each change, in the
 * calling thread.
 *
 * <p>Planning a query, compiling its code and starting its job takes Spark some hundred milliseconds. Running
 * a plan over a hundred rows takes one or two. The plan is therefore cached. Its {@link SparkPlan#execute}
 * returns the same RDD each time, tasks can read its only partition any number of times, and the code of its
 * stages is compiled once. Three rules make this correct:
 *
 * <ul>
 *   <li><b>One partition.</b> All rows of a leaf are in one partition. Spark exchanges rows to bring rows
 *       with the same key into one partition. With a single partition, they always are, so each exchange
 *       becomes a {@link org.apache.spark.sql.execution.CoalesceExec}.
 *   <li><b>No job.</b> Joins for which Spark would run a job are replaced ({@link SinglePartition}). A plan is
 *       refused if it would start a job all the same, which is the case if its physical plan still has a
 *       subquery, an unknown exchange, or Python evaluation by Arrow batches.
 *   <li><b>No data of a run in the plan.</b> The optimizer inlines the current time, a random function has
 *       a seed, and a table scan has a snapshot. Such plans are refused. The generated code of a broadcast
 *       join depends on the broadcast rows (whether keys are unique, whether there are rows), so stages with
 *       such a join run without generated code.
 * </ul>
 *
 * <p>Runs of the same plan exclude each other, because its leaves contain the rows of the run, and its
 * expressions may have state.
 */
public final class InlinePlan {
  private static final Set<String> CURRENT = Set.of("CURRENT_LIKE", "EXPRESSION_WITH_RANDOM_SEED");
  /** The reason why this Spark release cannot run plans inline, or null if it can. */
  private static volatile String unusable;
  private static final long BYTES_OF_OPERATOR = 20_000;
  private static final long BYTES_OF_EXPRESSION = 2_000;
  private final Properties settings;
  private final RDD<InternalRow> rows;
  private final StructType columns;
  private final long size;
  private final Lock lock = new ReentrantLock();

  /** Thrown if a plan needs a job. */
  public static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;

    Refused(String reason) {
      super(reason, null, false, false);
    }
  }

  /** Thrown if the result of a run is too large. A job must compute this run and later ones. */
  public static final class TooMuch extends RuntimeException {
    private static final long serialVersionUID = 1;

    TooMuch(String reason) {
      super(reason, null, false, false);
    }
  }

  /**
   * Thrown if a plan is already running or there is no memory for a run. A job must compute only this run.
   */
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
   * @throws Refused if the query needs a job, or its plan cannot be cached
   */
  public static InlinePlan of(Dataset<Row> query) {
    if (unusable != null) {
      throw new Refused(unusable);
    }
    SparkSession session = query.sparkSession();
    try {
      // Plan nodes belong to the session that is active when they are created.
      return session.withActive(() -> made(session, query));
    } catch (Refused refused) {
      throw refused;
    } catch (Exception | LinkageError | AssertionError | StackOverflowError cause) {
      // Nothing has been read yet. If the query is at fault, the job will fail too.
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
    SparkPlan plan = SinglePartition.of(planned(session, analyzed));
    check(plan, session.sparkContext().isLocal());
    InlinePlan made = new InlinePlan(settings(session), plan, query.schema());
    checkNarrow(made.rows);
    return made;
  }

  /**
   * Runs a join without rows. Returns the reason why this Spark release cannot run plans, which disables them
   * all, or null.
   */
  public static String probe(SparkSession session) {
    try {
      StructType columns = new StructType().add("a", "int");
      Dataset<Row> some = InlineLeaf.relation(session, columns);
      Dataset<Row> others = InlineLeaf.relation(session, columns);
      // The first compilation in a JVM sets the size of the code cache, according to the settings of the
      // active session.
      Rows none = session.withActive(() -> new Rows(columns));
      of(some.join(functions.broadcast(others), "a"))
          .run(Map.of(InlineLeaf.of(some), none, InlineLeaf.of(others), none), 0, 0);
    } catch (NotNow busy) {
      // Plans can run, but not at this time.
    } catch (Exception | LinkageError cause) {
      unusable = cause.toString();
    }
    return unusable;
  }

  /**
   * Plans a query like a subquery of Spark: without adaptive execution, which runs jobs, and without reuse of
   * exchanges.
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
    return QueryExecution.prepareExecutedPlan(session, SinglePartition.joined(execution.sparkPlan()));
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

  /** Refuses an RDD with a shuffle that is not a node of the plan, because no stage has written its input. */
  private static void checkNarrow(RDD<?> rdd) {
    for (Dependency<?> each : CollectionConverters.asJava(rdd.dependencies())) {
      if (each instanceof ShuffleDependency) {
        throw new Refused("an operator contains an exchange");
      }
      checkNarrow(each.rdd());
    }
  }

  /** Returns whether a leaf has rows of its own, which may be stale in the next run or are not counted. */
  private static boolean isForeignLeaf(SparkPlan plan) {
    boolean ours = plan instanceof RDDScanExec scan && (RDD<?>) scan.rdd() instanceof InlineLeaf;
    boolean fixed = plan instanceof LocalTableScanExec || plan instanceof OneRowRelationExec;
    return plan.children().isEmpty() && !ours && !fixed;
  }

  /**
   * Returns whether a plan needs Python that is not available here: for Arrow batches or, on a cluster, on
   * the executors.
   */
  private static boolean isPython(SparkPlan plan, boolean local) {
    Class<?> type = plan.getClass();
    boolean rowByRow = plan instanceof BatchEvalPythonExec && local;
    return type.getPackage().equals(BatchEvalPythonExec.class.getPackage()) && !rowByRow;
  }

  /** Estimates the heap size of a plan and its code, in bytes. */
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
   * Runs the plan over rows of its leaves, for the job of the current thread.
   *
   * @throws TooMuch if it returns more than {@code mostRows} rows or {@code mostBytes} @throws NotNow if its
   * task must wait too long or gets no memory
   */
  public Rows run(Map<InlineLeaf, Iterable<InternalRow>> given, int mostRows, long mostBytes)
      throws Exception {
    try {
      return InlineTask.run(ofThread(), lock, context -> drained(context, given, mostRows, mostBytes));
    } catch (SparkOutOfMemoryError cause) {
      throw new NotNow(cause.getMessage());
    }
  }

  /** Returns the plan's settings with the job properties of the current thread. */
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
          throw new TooMuch("The result has more than " + mostRows + " rows or " + mostBytes + " bytes.");
        }
      }
    }
    return result;
  }
}
