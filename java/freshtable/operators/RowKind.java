package freshtable.operators;

/** The kind of a changelog row, which is its last column. The codes are those of Flink's RowKind. */
final class RowKind {
  static final byte INSERT = 0;
  static final byte UPDATE_BEFORE = 1;
  static final byte UPDATE_AFTER = 2;
  static final byte DELETE = 3;

  private RowKind() {}

  /** Returns whether a row of this kind is added. If not, it is retracted. */
  static boolean adds(byte kind) {
    return kind == INSERT || kind == UPDATE_AFTER;
  }

  /** Returns whether a row of this kind is one half of an update. */
  static boolean updates(byte kind) {
    return kind == UPDATE_BEFORE || kind == UPDATE_AFTER;
  }
}
