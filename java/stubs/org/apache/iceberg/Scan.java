package org.apache.iceberg;

import java.util.Collection;
import java.util.concurrent.ExecutorService;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.io.CloseableIterable;

/** What Iceberg's interface has that ours are compiled against. */
public interface Scan<ThisT, T extends ScanTask, G extends ScanTaskGroup<T>> {
  ThisT caseSensitive(boolean caseSensitive);

  Schema schema();

  ThisT filter(Expression expr);

  default ThisT includeColumnStats(Collection<String> requestedColumns) {
    throw new UnsupportedOperationException();
  }

  ThisT planWith(ExecutorService executorService);

  CloseableIterable<T> planFiles();
}
