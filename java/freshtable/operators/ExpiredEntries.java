package freshtable.operators;

import java.lang.reflect.Proxy;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleImpl;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.ttl.TTLState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;

/**
 * Counts the expired entries that a processor has removed, for Spark's progress reports.
 *
 * <p>At the end of a task, Spark asks each of its own TTL states how many entries it has removed. Our states
 * are of another kind, so they are represented by a TTL state without a store. It is a proxy, because the
 * other methods of this interface are for Spark's index.
 */
final class ExpiredEntries {
  private long count;

  private ExpiredEntries() {}

  /** Returns the counter of a task. On the driver, which only asks for state schemas, it is not reported. */
  static ExpiredEntries reportedBy(StatefulProcessorHandle handle) {
    ExpiredEntries entries = new ExpiredEntries();
    if (handle instanceof StatefulProcessorHandleImpl task) {
      task.ttlStates().add(entries.state());
    }
    return entries;
  }

  void add(int entries) {
    count += entries;
  }

  private TTLState state() {
    Class<?>[] types = {TTLState.class};
    return (TTLState)
        Proxy.newProxyInstance(
            TTLState.class.getClassLoader(), types,
            (proxy, method, values) -> {
              if (method.getName().equals("clearExpiredStateForAllKeys")) {
                long reported = count;
                count = 0;
                return reported;
              }
              throw new UnsupportedOperationException(method.getName());
            });
  }
}
