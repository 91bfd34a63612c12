package freshtable.inline;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.LongConsumer;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.sql.classic.SparkSession;

/**
 * The running inline tasks by job tag. Spark's scheduler cancels and counts other tasks, but does not know
 * these.
 */
public final class InlineTasks {
  private static final String TAGS = "spark.job.tags";
  private static final String CANCELLED = "the job was cancelled";
  private static final int MOST_REMEMBERED = 10_000;
  private static final Map<String, OfJob> JOBS =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, OfJob> eldest) {
          return size() > MOST_REMEMBERED && eldest.getValue().running.isEmpty();
        }
      };

  private static final class OfJob {
    private final Map<TaskContextImpl, Thread> running = new HashMap<>();
    private boolean cancelled;
    private long ended;
    private long rowsRead;
  }

  private InlineTasks() {}

  /**
   * Runs work of the calling thread's job that is neither a Spark job nor an inline plan. A cancellation of the
   * job interrupts the thread.
   */
  public static <T> T run(SparkSession session, Callable<T> work) throws Exception {
    return InlineTask.beside(session.sparkContext().getLocalProperties(), context -> work.call());
  }

  /** Work that counts the rows that it reads from tables. */
  public interface Reading<T> {
    T read(LongConsumer rows) throws Exception;
  }

  /** Does the same as {@link #run} for work that reads tables. The consumer gets numbers of rows. */
  public static <T> T reading(SparkSession session, Reading<T> work) throws Exception {
    return InlineTask.beside(session.sparkContext().getLocalProperties(),
        context -> work.read(rows -> read((TaskContextImpl) context, rows)));
  }

  static synchronized void begin(TaskContextImpl context) {
    OfJob job = of(context);
    job.running.put(context, Thread.currentThread());
    if (job.cancelled) {
      context.markInterrupted(CANCELLED);
    }
  }

  static synchronized void end(TaskContextImpl context) {
    OfJob job = of(context);
    job.running.remove(context);
    job.ended++;
    // Clear the interrupt of a cancellation, which was meant only for this task.
    if (context.isInterrupted()) {
      Thread.interrupted();
    }
  }

  /**
   * Counts rows that a task has read from a table. Rows of a failed task are not counted, because a job reads
   * them again.
   */
  static synchronized void read(TaskContextImpl context, long rows) {
    if (!context.isFailed()) {
      of(context).rowsRead += rows;
    }
  }

  private static OfJob of(TaskContext context) {
    String tags = String.valueOf(context.getLocalProperty(TAGS));
    // The other tags of a stream's thread are Spark's own: for the session, and for each of its queries.
    return of(Arrays.stream(tags.split(","))
        .filter(tag -> !tag.startsWith("spark-session-")).findFirst().orElse(""));
  }

  private static OfJob of(String tag) {
    return JOBS.computeIfAbsent(tag, any -> new OfJob());
  }

  /** Cancels the tasks of a job: interrupts the running tasks, and prevents later ones. */
  public static synchronized void cancel(String tag) {
    OfJob job = of(tag);
    job.cancelled = true;
    job.running.forEach(
        (context, thread) -> {
          context.markInterrupted(CANCELLED);
          thread.interrupt();
        });
  }

  /**
   * Returns, as JSON, the numbers of a job's completed tasks, of all its tasks, and of rows read from tables.
   */
  public static synchronized String counts(String tag) {
    OfJob job = JOBS.getOrDefault(tag, new OfJob());
    return String.format("[%d, %d, %d]", job.ended, job.ended + job.running.size(), job.rowsRead);
  }
}
