package freshtable.results;

import java.util.List;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedGenerator;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalLimitExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.RangeExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Decides which results may be fetched in parts: those whose partitions return the same rows in the same
 * order when they are recomputed.
 */
public final class Repeatable {
  private static final long MEBIBYTE = 1 << 20;
  /** In local mode, the JVM has up to five copies of a task's result, and needs memory for other purposes. */
  private static final int COPIES = 8;
  /** Plan nodes whose output order depends only on their inputs. */
  private static final Set<Class<?>> STEPS =
      Set.of(
          ColumnarToRowExec.class,
          ExpandExec.class,
          FilterExec.class,
          GenerateExec.class,
          InputAdapter.class,
          LocalLimitExec.class,
          ProjectExec.class,
          UnionExec.class,
          WholeStageCodegenExec.class);

  private static final Set<Class<?>> SOURCES =
      Set.of(FileSourceScanExec.class, LocalTableScanExec.class, RangeExec.class);
  private static final String ICEBERG = "org.apache.iceberg.spark.source.";

  private Repeatable() {}

  /**
   * Returns the maximum number of bytes in all parts of one job, or 0 if a partition cannot be recomputed.
   */
  public static long room(SparkContext spark, SparkPlan plan) {
    return repeats(plan) ? room(spark) : 0;
  }

  private static boolean repeats(SparkPlan plan) {
    return isKnown(plan)
        && plan.subqueries().isEmpty()
        && items(plan.expressions()).stream().allMatch(each -> each.deterministic() && !callsUsers(each))
        && items(plan.children()).stream().allMatch(Repeatable::repeats);
  }

  /**
   * Returns whether the expression calls user code. Spark assumes that user code is deterministic unless it
   * is declared otherwise.
   */
  private static boolean callsUsers(Expression expression) {
    return expression instanceof UserDefinedExpression
        || expression instanceof UserDefinedGenerator
        || items(expression.children()).stream().anyMatch(Repeatable::callsUsers);
  }

  private static boolean isKnown(SparkPlan plan) {
    if (plan instanceof BatchScanExec batch) {
      Scan scan = batch.scan();
      return scan instanceof FileScan || scan.getClass().getName().startsWith(ICEBERG);
    }
    return STEPS.contains(plan.getClass()) || SOURCES.contains(plan.getClass());
  }

  private static long room(SparkContext spark) {
    long heap = Runtime.getRuntime().maxMemory();
    if (!spark.isLocal()) {
      heap = Math.min(heap, spark.executorMemory() * MEBIBYTE);
    }
    long limit = spark.conf().getSizeAsBytes("spark.driver.maxResultSize", "1g");
    return Math.min(heap / COPIES, limit > 0 ? limit / 2 : Long.MAX_VALUE);
  }

  private static <T> List<T> items(Seq<T> sequence) {
    return CollectionConverters.asJava(sequence);
  }
}
