package org.apache.iceberg;

/** What Iceberg's interface has that ours are compiled against. */
public interface ScanTaskGroup<T extends ScanTask> extends ScanTask {}
