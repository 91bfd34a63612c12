package freshtable.queries;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listener;
import org.apache.iceberg.events.Listeners;

/** The names of tables to which this process commits rows, received from Iceberg's listeners. */
public final class Commits implements Listener<CreateSnapshotEvent> {
  private final BlockingQueue<String> tables;

  private Commits(int most) {
    this.tables = new LinkedBlockingQueue<>(most);
  }

  /**
   * Returns a listener that queues names from now on. If {@code most} names are waiting, further names are
   * dropped.
   */
  public static Commits listening(int most) {
    Commits commits = new Commits(most);
    Listeners.register(commits, CreateSnapshotEvent.class);
    return commits;
  }

  /** Must not block, because it runs in the committing thread. */
  @Override
  public void notify(CreateSnapshotEvent event) {
    // A held commit has no name: other readers do not see it.
    if (!event.tableName().isEmpty()) {
      tables.offer(event.tableName());
    }
  }

  /** Waits for the next name, which includes the catalog. Returns null on timeout. */
  public String next(long millis) throws InterruptedException {
    return tables.poll(millis, TimeUnit.MILLISECONDS);
  }
}
