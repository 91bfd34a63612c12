package org.apache.iceberg.deletes;

import java.util.function.LongConsumer;

/** What Iceberg's interface has that ours are compiled against. */
public interface PositionDeleteIndex {
  default void forEach(LongConsumer consumer) {
    throw new UnsupportedOperationException();
  }
}
