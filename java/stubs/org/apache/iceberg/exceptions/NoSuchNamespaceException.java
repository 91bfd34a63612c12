package org.apache.iceberg.exceptions;

/** What Iceberg's class has that ours are compiled against. */
public class NoSuchNamespaceException extends RuntimeException {
  private static final long serialVersionUID = 1;

  public NoSuchNamespaceException(String message, Object... args) {
    super(String.format(message, args));
  }
}
