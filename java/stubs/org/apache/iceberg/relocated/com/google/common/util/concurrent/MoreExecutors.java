package org.apache.iceberg.relocated.com.google.common.util.concurrent;

/** What Iceberg's class has that ours are compiled against. */
public final class MoreExecutors {
  private MoreExecutors() {}

  public static ListeningExecutorService newDirectExecutorService() {
    throw new UnsupportedOperationException();
  }
}
