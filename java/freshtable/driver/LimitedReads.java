package freshtable.driver;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Reads one text of each of several objects, such as the current version of a table, apart from each other and within a limit of time.
 *
 * <p>A thread of ours reads one object after the other, which costs no more than a loop in the thread of the caller. Where it stays with
 * one of them, more threads go on with the rest: twice as many each time that none is done within a wait. A caller does not wait for the
 * last ones. They are unfinished until a later call has their texts, and no second thread reads them before: a store or a
 * database that hangs holds one thread for each object there.
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

  /** One read, which is done when it has a text or a failure. */
  private static final class Read {
    private final Object object;
    private long began;
    private volatile Thread thread;
    private volatile String[] result;

    Read(Object object) {
      this.object = object;
    }

    void run(Function<Object, Object> function) {
      // The interrupt of the read before this one may have come too late for it.
      Thread.interrupted();
      began = System.nanoTime();
      thread = Thread.currentThread();
      try {
        result = new String[] {String.valueOf(function.apply(object)), null};
      } catch (Throwable failure) {
        result = new String[] {null, reason(failure)};
      }
    }

    private static String reason(Throwable failure) {
      Throwable first = failure;
      // What calls a method for us wraps what that throws.
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

    /** Waits until all are done, or none is for so long; returns how many are not begun then. */
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
   * Returns for each object its text and null, or null and why it has none, or twice null while it is not read.
   *
   * <p>Of one that has not been read after so many milliseconds the reason says so, and its thread is interrupted, which ends the
   * pauses between the attempts of a library.
   */
  public List<String[]> of(List<?> objects, Function<Object, Object> function, long waitMs, long limitMs)
      throws InterruptedException {
    List<Read> all = new ArrayList<>(objects.size());
    List<Read> begun = new ArrayList<>(objects.size());
    synchronized (unfinished) {
      for (Object object : objects) {
        Read read = unfinished.remove(object);
        if (read == null) {
          read = new Read(object);
          begun.add(read);
        }
        all.add(read);
      }
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

  private String[] outcome(Read read, long limitMs) {
    String[] result = read.result;
    if (result != null) {
      return result;
    }
    synchronized (unfinished) {
      unfinished.put(read.object, read);
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
