package org.apache.iceberg.events;

/** What Iceberg's interface has that ours are compiled against. */
public interface Listener<E> {
  void notify(E event);
}
