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
 * The threads that read files, for all refreshes: those of the common pool are few,
 * and for work that waits for nothing.
 */
final class ReadingThreads {
  private static final Logger LOG = LoggerFactory.getLogger(ReadingThreads.class);
  /** Files that are read at a time: twice as many as there are cores, since some wait for their storage. */
  private static final int MOST = Math.min(16, Math.max(4, 2 * Runtime.getRuntime().availableProcessors()));
  private static final ThreadPoolExecutor THREADS =
      new ThreadPoolExecutor(MOST, MOST, 60, TimeUnit.SECONDS,
          new LinkedBlockingQueue<>(), ReadingThreads::thread);

  static {
    THREADS.allowCoreThreadTimeOut(true);
  }

  private ReadingThreads() {}

  /** Work that reads files. */
  interface Reading<T> {
    /** Returns null if the files are not read here. */
    T read() throws IOException;
  }

  /** Returns what each work gives, in their order; null if one gives null, or cannot read a file. */
  static <T> List<T> all(List<Reading<T>> works) {
    List<Future<T>> begun = new ArrayList<>();
    works.forEach(work -> begun.add(THREADS.submit(() -> read(work))));
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
      // All that a work throws itself is an error of the JVM, such as that its memory is full.
      throw new IllegalStateException(cause.getCause());
    } finally {
      begun.forEach(each -> each.cancel(false));
    }
  }

  /** Returns what {@code work} gives, null if it cannot read a file: the job that reads it then says why. */
  private static <T> T read(Reading<T> work) {
    try {
      return work.read();
    } catch (IOException | RuntimeException cause) {
      // Parquet and Spark's reader of columns say of most files that they cannot read,
      // in errors of many classes.
      LOG.warn("A file is left to a job of Spark's: {}", cause.toString());
      return null;
    }
  }

  private static Thread thread(Runnable work) {
    Thread thread = new Thread(work, "freshtable files");
    thread.setDaemon(true);
    return thread;
  }
}
