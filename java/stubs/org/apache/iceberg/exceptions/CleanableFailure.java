package org.apache.iceberg.exceptions;

/** What Iceberg's interface has that ours are compiled against. */
public interface CleanableFailure {}
