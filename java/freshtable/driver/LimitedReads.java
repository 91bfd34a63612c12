package freshtable.driver;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.iceberg.HasTableOperations;

/**
 * Reads one text of each of several objects, such as the current version of a table, independently and within
 * a time limit.
 *
 * <p>One thread reads the objects in turn, which costs no more than a loop in the caller's thread. If it is
 * stuck on one of them, more threads continue with the rest. Their number is doubled each time no read
 * completes within a wait. The caller does not wait for the last reads. They remain unfinished until a later
 * call receives their texts, and no second thread reads the same object in the meantime. A store or a
 * database that hangs therefore blocks no more than one thread per object.
 */
public final class LimitedReads {
  private static final int MOST_THREADS = 64;
  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "freshtable-source");
            thread.setDaemon(true);
            return thread;
          });
  private final Map<Object, Read> unfinished = new IdentityHashMap<>();

  /** A read, which is done when it has a text or a failure. */
  private static final class Read {
    private final Object object;
    private final Object key;
    private long began;
    private volatile Thread thread;
    private volatile String[] result;

    Read(Object object, Object key) {
      this.object = object;
      this.key = key;
    }

    /** Waits until the read is done. Returns false at the deadline. */
    synchronized boolean isDoneBy(long deadline) throws InterruptedException {
      while (result == null) {
        long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
        if (left <= 0) {
          return false;
        }
        wait(left);
      }
      return true;
    }

    void run(Function<Object, Object> function) {
      // Clear an interrupt that arrived after the end of the previous read.
      Thread.interrupted();
      began = System.nanoTime();
      thread = Thread.currentThread();
      String[] found;
      try {
        found = new String[] {String.valueOf(function.apply(object)), null};
      } catch (Throwable failure) {
        found = new String[] {null, reason(failure)};
      }
      synchronized (this) {
        result = found;
        notifyAll();
      }
    }

    private static String reason(Throwable failure) {
      Throwable first = failure;
      // Reflective calls wrap the exceptions of their method.
      while (first instanceof java.lang.reflect.UndeclaredThrowableException && first.getCause() != null) {
        first = first.getCause();
      }
      return first.toString();
    }
  }

  /** The reads of one call, which its threads share. */
  private static final class Pass implements Runnable {
    private final List<Read> reads;
    private final Function<Object, Object> function;
    private int next;
    private int done;

    Pass(List<Read> reads, Function<Object, Object> function) {
      this.reads = reads;
      this.function = function;
    }

    @Override
    public void run() {
      for (Read read = take(); read != null; read = take()) {
        read.run(function);
        finish();
      }
    }

    private synchronized Read take() {
      return next < reads.size() ? reads.get(next++) : null;
    }

    private synchronized void finish() {
      done++;
      notifyAll();
    }

    /**
     * Waits until all reads are done, or until no read completes for {@code waitMs}. Returns the number of
     * reads that have not begun.
     */
    synchronized int await(long waitMs) throws InterruptedException {
      long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
      while (done < reads.size()) {
        long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
        if (left <= 0) {
          break;
        }
        wait(left);
      }
      return reads.size() - next;
    }
  }

  /**
   * Returns, for each object, its text and null, null and an error, or two nulls if it has not been read yet.
   *
   * <p>If an object has not been read after {@code limitMs}, its error says so, and its thread is
   * interrupted, which ends the pauses between retries of a library. A {@code fresh} text is read after the
   * call began: an unfinished read of an earlier call is awaited, and the object is then read again. If texts
   * need not be fresh, the text of the earlier read is returned.
   */
  public List<String[]> of(
      List<?> objects, Function<Object, Object> function, long waitMs, long limitMs, boolean fresh)
      throws InterruptedException {
    List<Read> all = new ArrayList<>(objects.size());
    List<Read> begun = new ArrayList<>(objects.size());
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    for (Object object : objects) {
      Object key = keyOf(object);
      Read read;
      synchronized (unfinished) {
        read = unfinished.remove(key);
      }
      if (read == null || fresh && read.isDoneBy(deadline)) {
        read = new Read(object, key);
        begun.add(read);
      }
      all.add(read);
    }
    Pass pass = new Pass(begun, function);
    int count = begun.isEmpty() ? 0 : 1;
    for (int added = count; ; added = Math.min(count, MOST_THREADS - count), count += added) {
      for (int index = 0; index < added; index++) {
        threads.execute(pass);
      }
      if (pass.await(waitMs) == 0 || count >= MOST_THREADS) {
        break;
      }
    }
    return all.stream().map(read -> outcome(read, limitMs)).toList();
  }

  /** Returns the identity of an object. Two reads of the same table must not run at the same time. */
  private static Object keyOf(Object object) {
    return object instanceof HasTableOperations table ? table.operations() : object;
  }

  private String[] outcome(Read read, long limitMs) {
    String[] result = read.result;
    if (result != null) {
      return result;
    }
    synchronized (unfinished) {
      unfinished.put(read.key, read);
    }
    Thread thread = read.thread;
    long took = thread == null ? 0 : TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - read.began);
    if (took < limitMs) {
      return new String[] {null, null};
    }
    thread.interrupt();
    return new String[] {null, "it has not answered for " + took / 1000 + " seconds"};
  }
}
