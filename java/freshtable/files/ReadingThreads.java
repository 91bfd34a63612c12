package freshtable.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that read files, which all refreshes share. Java's common pool is too small, and is meant for
 * tasks that do not block.
 */
final class ReadingThreads {
  private static final Logger LOG = LoggerFactory.getLogger(ReadingThreads.class);
  /** The number of concurrent reads: twice the number of cores, because some reads wait for storage. */
  private static final int MOST = Math.min(16, Math.max(4, 2 * Runtime.getRuntime().availableProcessors()));
  private static final ThreadPoolExecutor THREADS = threads("freshtable files");
  /** Threads for tasks that read whole files, so that shorter tasks do not wait for them. */
  private static final ThreadPoolExecutor OF_WHOLE_FILES = threads("freshtable whole files");

  private ReadingThreads() {}

  /** A task that reads files. */
  interface Reading<T> {
    /** Returns the result, or null if the files are not supported here. */
    T read() throws IOException;
  }

  /** Returns the results in order, or null if one of them is null or a file cannot be read. */
  static <T> List<T> all(List<Reading<T>> works) {
    return all(THREADS, works);
  }

  /** Returns the same as {@link #all} for tasks that read whole files, which may take seconds. */
  static <T> List<T> allWhole(List<Reading<T>> works) {
    return all(OF_WHOLE_FILES, works);
  }

  private static <T> List<T> all(ThreadPoolExecutor threads, List<Reading<T>> works) {
    List<Future<T>> begun = new ArrayList<>();
    works.forEach(work -> begun.add(threads.submit(() -> read(work))));
    List<T> given = new ArrayList<>();
    try {
      for (Future<T> each : begun) {
        T one = each.get();
        if (one == null) {
          return null;
        }
        given.add(one);
      }
      return given;
    } catch (InterruptedException cause) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException cause) {
      if (cause.getCause() instanceof Error error) {
        // Such as lack of memory.
        throw error;
      }
      throw new IllegalStateException(cause.getCause());
    } finally {
      begun.forEach(each -> each.cancel(false));
    }
  }

  /**
   * Returns the result of {@code work}, or null if a file cannot be read. A Spark job will read it instead
   * and report the error.
   */
  private static <T> T read(Reading<T> work) {
    try {
      return work.read();
    } catch (IOException | RuntimeException cause) {
      // Parquet and Spark's vectorized reader report most unreadable files by exceptions of many classes.
      LOG.warn("A file must be read by a Spark job: {}", cause.toString());
      return null;
    }
  }

  private static ThreadPoolExecutor threads(String name) {
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(
            MOST, MOST, 60, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
            work -> {
              Thread thread = new Thread(work, name);
              thread.setDaemon(true);
              return thread;
            });
    threads.allowCoreThreadTimeOut(true);
    return threads;
  }
}
