package org.apache.iceberg.events;

/** What Iceberg's class has that ours are compiled against. */
public class Listeners {
  private Listeners() {}

  public static <E> void notifyAll(E event) {
    throw new UnsupportedOperationException();
  }

  public static <E> void register(Listener<E> listener, Class<E> eventType) {
    throw new UnsupportedOperationException();
  }
}
