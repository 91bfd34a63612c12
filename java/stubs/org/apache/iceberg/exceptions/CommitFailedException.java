package org.apache.iceberg.exceptions;

/** What Iceberg's class has that ours are compiled against. */
public class CommitFailedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  public CommitFailedException(String message, Object... args) {
    super(String.format(message, args));
  }
}
