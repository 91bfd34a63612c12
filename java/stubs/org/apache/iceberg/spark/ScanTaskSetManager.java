package org.apache.iceberg.spark;

import java.util.List;
import org.apache.iceberg.ScanTask;
import org.apache.iceberg.Table;

/** What Iceberg's class has that ours are compiled against. */
public class ScanTaskSetManager {
  private ScanTaskSetManager() {}

  public static ScanTaskSetManager get() {
    throw new UnsupportedOperationException();
  }

  public <T extends ScanTask> void stageTasks(Table table, String setId, List<T> tasks) {
    throw new UnsupportedOperationException();
  }

  public <T extends ScanTask> List<T> removeTasks(Table table, String setId) {
    throw new UnsupportedOperationException();
  }
}
