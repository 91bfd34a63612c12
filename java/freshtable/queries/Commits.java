package freshtable.queries;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listener;
import org.apache.iceberg.events.Listeners;

/** The names of the tables to which this process commits rows, as Iceberg tells its listeners. */
public final class Commits implements Listener<CreateSnapshotEvent> {
  private final BlockingQueue<String> tables;

  private Commits(int most) {
    this.tables = new LinkedBlockingQueue<>(most);
  }

  /** Returns what takes the names from now on; further ones than so many that wait are left out. */
  public static Commits listening(int most) {
    Commits commits = new Commits(most);
    Listeners.register(commits, CreateSnapshotEvent.class);
    return commits;
  }

  /** The thread of the commit does not wait for the one that takes the names. */
  @Override
  public void notify(CreateSnapshotEvent event) {
    tables.offer(event.tableName());
  }

  /** Waits for the next name, which has the catalog; returns null if there is none in time. */
  public String next(long millis) throws InterruptedException {
    return tables.poll(millis, TimeUnit.MILLISECONDS);
  }
}
