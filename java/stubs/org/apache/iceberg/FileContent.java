package org.apache.iceberg;

/** What Iceberg's enum has that ours are compiled against. */
public enum FileContent {
  POSITION_DELETES,
  EQUALITY_DELETES
}
