package org.apache.iceberg.relocated.com.google.common.util.concurrent;

import java.util.concurrent.ExecutorService;

/** What Iceberg's interface has that ours are compiled against. */
public interface ListeningExecutorService extends ExecutorService {}
