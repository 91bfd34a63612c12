package freshtable.operators;

import java.lang.reflect.Proxy;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleImpl;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.ttl.TTLState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;

/**
 * How many entries of a processor are gone because they had expired, which Spark reports with each batch.
 *
 * <p>Spark asks each of its own states with a TTL, at the end of a task, how many entries it has removed.
 * Ours have none, so a state without a store answers for them. It is a proxy: the rest of that interface
 * is about Spark's index.
 */
final class ExpiredEntries {
  private long count;

  private ExpiredEntries() {}

  /**
   * Returns a count that begins with a task; on the driver, where only the schemas of states are asked for,
   * none reports it.
   */
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
