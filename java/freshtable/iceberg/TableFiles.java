package freshtable.iceberg;

import java.io.IOException;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;

/** The data files of a table at a snapshot, by location, each with the scan task that reads it. */
public final class TableFiles {
  private final Map<String, FileScanTask> tasks = new LinkedHashMap<>();
  private final long snapshot;

  private TableFiles(long snapshot) {
    this.snapshot = snapshot;
  }

  /** Lists the files of a table at a snapshot. */
  public static TableFiles of(Table table, long snapshot) throws IOException {
    TableFiles files = new TableFiles(snapshot);
    for (FileScanTask task : ScanTasks.planned(Manifests.scan(table, snapshot))) {
      String location = task.file().location();
      // A writer may have added the same file twice, which then has each row twice.
      while (files.tasks.putIfAbsent(location, task) != null) {
        location += "\0";
      }
    }
    return files;
  }

  public long snapshot() {
    return snapshot;
  }

  /** Returns the number of files. */
  public int count() {
    return tasks.size();
  }

  /** Returns the scan tasks of all files. If a file was added twice, it has two. */
  public Collection<FileScanTask> tasks() {
    return Collections.unmodifiableCollection(tasks.values());
  }

  /** Returns the difference between these files and those of a later snapshot of the same table. */
  public FileDifference differenceTo(TableFiles later) {
    FileDifference difference = new FileDifference();
    tasks.forEach((location, task) -> difference.add(task, later.tasks.get(location)));
    later.tasks.forEach(
        (location, task) -> {
          if (!tasks.containsKey(location)) {
            difference.add(null, task);
          }
        });
    return difference;
  }
}
