package org.apache.iceberg;

import java.util.concurrent.ExecutorService;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.io.CloseableIterable;

/** What Iceberg's interface has that ours are compiled against. */
public interface Scan<ThisT, T extends ScanTask, G extends ScanTaskGroup<T>> {
  ThisT caseSensitive(boolean caseSensitive);

  ThisT filter(Expression expr);

  ThisT planWith(ExecutorService executorService);

  CloseableIterable<T> planFiles();
}
