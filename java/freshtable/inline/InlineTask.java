package freshtable.inline;

import java.util.Properties;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.storage.memory.MemoryStore;
import scala.Option;

/**
 * A Spark task in the calling thread.
 *
 * <p>A Spark job takes 100 to 300 ms, even if it does very little: its scheduler passes tasks to executors,
 * waits for them, and notifies its listeners. A task itself needs less: a {@link TaskContext} of the thread,
 * through which operators find their settings and memory, and a registration as an owner of blocks.
 * {@link #run} provides these, and releases them like Spark's executor: acquired memory, block locks, and
 * readers that must be closed when a task ends. The work competes for memory with the tasks of jobs by the
 * same rules, and spills like they do.
 *
 * <p>This is the only class that uses private parts of Spark's core.
 */
final class InlineTask {
  /**
   * Far from Spark's task ids, which are positive, and from its ids outside of tasks, which are -1 and -1024.
   */
  private static final AtomicLong LAST_ID = new AtomicLong(Long.MIN_VALUE);
  /** Limits the number of concurrent tasks to half of the cores. The others are left to jobs. */
  private static final Semaphore TURNS =
      new Semaphore(Math.max(1, Runtime.getRuntime().availableProcessors() / 2), true);
  private static final int LONGEST_WAIT_S = 5;
  private static final int ONE_PART = 1;
  private static final int NO_STAGE = -1;

  /** Work to run as a task. */
  interface Work<T> {
    T in(TaskContext context) throws Exception;
  }

  private InlineTask() {}

  /**
   * Runs work as a task while holding a lock. {@code settings} are those of the session, the only ones that
   * {@code SQLConf.get} returns in a task's thread.
   *
   * @throws InlinePlan.NotNow if the lock, or a free core, is not available within {@code LONGEST_WAIT_S}
   * @throws IllegalStateException in a thread that already runs a task
   */
  static <T> T run(Properties settings, Lock lock, Work<T> work) throws Exception {
    if (TaskContext.get() != null) {
      throw new IllegalStateException("This thread already runs a Spark task.");
    }
    long id = LAST_ID.incrementAndGet();
    TaskMemoryManager memory = new TaskMemoryManager(SparkEnv.get().memoryManager(), id);
    TaskContextImpl context = context(id, memory, settings);
    InlineTasks.begin(context);
    try {
      awaited(lock.tryLock(LONGEST_WAIT_S, TimeUnit.SECONDS));
      try {
        awaited(TURNS.tryAcquire(LONGEST_WAIT_S, TimeUnit.SECONDS));
        try {
          return inTurn(context, memory, work);
        } finally {
          TURNS.release();
        }
      } finally {
        lock.unlock();
      }
    } catch (Throwable cause) {
      // An operation that was interrupted by a cancellation throws an error of its own.
      context.killTaskIfInterrupted();
      throw cause;
    } finally {
      InlineTasks.end(context);
    }
  }

  /**
   * Runs work that other threads do for the calling thread. It is counted and cancelled like a task, but takes
   * no turn and no memory of Spark. A cancellation interrupts the calling thread.
   */
  static <T> T beside(Properties settings, Work<T> work) throws Exception {
    long id = LAST_ID.incrementAndGet();
    TaskContextImpl context =
        context(id, new TaskMemoryManager(SparkEnv.get().memoryManager(), id), settings);
    InlineTasks.begin(context);
    try {
      context.killTaskIfInterrupted();
      return work.in(context);
    } finally {
      InlineTasks.end(context);
      context.killTaskIfInterrupted();
    }
  }

  private static void awaited(boolean come) {
    if (!come) {
      throw new InlinePlan.NotNow("other inline tasks have run for " + LONGEST_WAIT_S + " s");
    }
  }

  private static <T> T inTurn(TaskContextImpl context, TaskMemoryManager memory, Work<T> work)
      throws Exception {
    context.killTaskIfInterrupted();
    SparkEnv.get().blockManager().registerTask(context.taskAttemptId());
    InputFileBlockHolder.initialize();
    TaskContext$.MODULE$.setTaskContext(context);
    try {
      T result = work.in(context);
      context.markTaskCompleted(Option.empty());
      return result;
    } catch (Throwable cause) {
      tell(cause, () -> context.markTaskFailed(cause));
      tell(cause, () -> context.markTaskCompleted(Option.apply(cause)));
      throw cause;
    } finally {
      release(context.taskAttemptId(), memory);
    }
  }

  /** Notifies the failure listeners. Their errors do not hide the cause. */
  private static void tell(Throwable cause, Runnable listeners) {
    try {
      listeners.run();
    } catch (Throwable other) {
      cause.addSuppressed(other);
    }
  }

  private static TaskContextImpl context(long id, TaskMemoryManager memory, Properties settings) {
    return new TaskContextImpl(
        NO_STAGE,
        0,
        0,
        id,
        0,
        ONE_PART,
        memory,
        settings,
        SparkEnv.get().metricsSystem(),
        TaskMetrics.empty(),
        ONE_PART,
        scala.collection.immutable.Map$.MODULE$.empty());
  }

  private static void release(long id, TaskMemoryManager memory) {
    SparkEnv env = SparkEnv.get();
    try {
      MemoryStore store = env.blockManager().memoryStore();
      store.releaseUnrollMemoryForThisTask(MemoryMode.ON_HEAP, Long.MAX_VALUE);
      store.releaseUnrollMemoryForThisTask(MemoryMode.OFF_HEAP, Long.MAX_VALUE);
      env.blockManager().releaseAllLocksForTask(id);
    } finally {
      TaskContext$.MODULE$.unset();
      InputFileBlockHolder.unset();
      memory.cleanUpAllAllocatedMemory();
      synchronized (env.memoryManager()) {
        // Wake tasks that wait for memory.
        env.memoryManager().notifyAll();
      }
    }
  }
}
