package org.apache.iceberg.view;

/** What Iceberg's interface has that ours are compiled against. */
public interface ViewMetadata {}
