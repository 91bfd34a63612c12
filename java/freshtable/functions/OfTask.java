package freshtable.functions;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * One object of a user's class for each task.
 *
 * <p>Users may store state between calls in its fields, because Spark gives each task of a job an object of
 * its own. This class does the same if tasks share an expression, as tasks of a cached plan do, and for
 * threads outside of tasks.
 */
final class OfTask<T> implements Serializable {
  private static final long serialVersionUID = 1;
  private static final long NO_TASK = Long.MAX_VALUE;

  private record Made(long task, Object object) {}

  private final List<String> jars;
  private final String className;
  private transient volatile ThreadLocal<Made> made;

  OfTask(List<String> jars, String className) {
    this.jars = jars;
    this.className = className;
  }

  /** Returns the object of the current thread's task. */
  @SuppressWarnings("unchecked")
  T get() throws ReflectiveOperationException {
    ThreadLocal<Made> all = threads();
    TaskContext context = TaskContext.get();
    long task = context == null ? NO_TASK : context.taskAttemptId();
    Made last = all.get();
    if (last == null || last.task != task) {
      last = new Made(task, UserClasses.instance(jars, className));
      all.set(last);
      if (context != null) {
        context.addTaskCompletionListener((TaskCompletionListener) ended -> all.remove());
      }
    }
    return (T) last.object;
  }

  /** Returns the same object as {@link #get}, without checked exceptions. */
  T object() {
    try {
      return get();
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private ThreadLocal<Made> threads() {
    ThreadLocal<Made> found = made;
    if (found == null) {
      synchronized (this) {
        found = made;
        if (found == null) {
          found = new ThreadLocal<>();
          made = found;
        }
      }
    }
    return found;
  }
}
