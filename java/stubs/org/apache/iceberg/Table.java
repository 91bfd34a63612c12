package org.apache.iceberg;

import java.util.UUID;

/** What Iceberg's interface has that ours are compiled against. */
public interface Table {
  void refresh();

  Schema schema();

  Snapshot currentSnapshot();

  default UUID uuid() {
    throw new UnsupportedOperationException();
  }
}
