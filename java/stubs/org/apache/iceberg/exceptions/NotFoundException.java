package org.apache.iceberg.exceptions;

/** What Iceberg's class has that ours are compiled against. */
public class NotFoundException extends RuntimeException {
  private static final long serialVersionUID = 1;

  public NotFoundException(Throwable cause, String message, Object... args) {
    super(String.format(message, args), cause);
  }
}
