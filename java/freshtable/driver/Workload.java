package freshtable.driver;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkExecutorInfo;
import org.apache.spark.SparkStatusTracker;

/** What Spark does at one instant, for metrics. */
public final class Workload {
  private Workload() {}

  /**
   * Returns a JSON array: the running jobs and tasks, the executors, and the bytes in the heap and outside of
   * it that the JVM uses.
   */
  public static String of(SparkContext context) {
    SparkStatusTracker tracker = context.statusTracker();
    SparkExecutorInfo[] executors = tracker.getExecutorInfos();
    int tasks = Arrays.stream(executors).mapToInt(SparkExecutorInfo::numRunningTasks).sum();
    // The driver is listed too, and runs tasks only if there is no cluster.
    int working = context.isLocal() ? executors.length : Math.max(0, executors.length - 1);
    MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
    long[] values = {
      tracker.getActiveJobIds().length,
      tasks,
      working,
      memory.getHeapMemoryUsage().getUsed(),
      memory.getNonHeapMemoryUsage().getUsed()
    };
    return Arrays.toString(values);
  }
}
