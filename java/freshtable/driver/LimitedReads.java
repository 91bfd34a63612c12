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
 * Reads one text of each of several objects, such as the current version of a table,
 * apart from each other and within a limit of time.
 *
 * <p>A thread of ours reads one object after the other, which costs no more than a loop in the thread of the
 * caller. Where it stays with one of them, more threads go on with the rest: twice as many each time that
 * none is done within a wait. A caller does not wait for the last ones. They are unfinished until a later
 * call has their texts, and no second thread reads them before: a store or a database that hangs holds one
 * thread for each object there.
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
    private final Object key;
    private long began;
    private volatile Thread thread;
    private volatile String[] result;

    Read(Object object, Object key) {
      this.object = object;
      this.key = key;
    }

    /** Waits until it is done; returns false if it is not at that time. */
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
      // The interrupt of the read before this one may have come too late for it.
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
   * Returns for each object its text and null, or null and why it has none, or twice null
   * while it is not read.
   *
   * <p>Of one that has not been read after so many milliseconds the reason says so, and its thread is
   * interrupted, which ends the pauses between the attempts of a library. A *fresh* text is one that was read
   * after the call began: an unfinished read of an earlier call is waited for, and its object is read again.
   * Otherwise the text of that read is the answer.
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

  /** Returns what two reads of one table have in common, which are not to happen at the same time. */
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
