package org.apache.iceberg.spark;

import java.util.Map;
import java.util.concurrent.Callable;

/** What Iceberg's class has that ours are compiled against. */
public class CommitMetadata {
  private CommitMetadata() {}

  public static <R, E extends Exception> R withCommitProperties(
      Map<String, String> properties, Callable<R> callable, Class<E> exClass) throws E {
    throw new UnsupportedOperationException();
  }
}
