package freshtable.operators;

/**
 * How a row changes the result before it: the codes are those of Flink's RowKind,
 * in the last column of the rows of a changelog.
 */
final class RowKind {
  static final byte INSERT = 0;
  static final byte UPDATE_BEFORE = 1;
  static final byte UPDATE_AFTER = 2;
  static final byte DELETE = 3;

  private RowKind() {}

  /** Returns whether a row of that kind comes into the result; else it is taken out. */
  static boolean adds(byte kind) {
    return kind == INSERT || kind == UPDATE_AFTER;
  }

  /** Returns whether a row of that kind is one part of a change. */
  static boolean updates(byte kind) {
    return kind == UPDATE_BEFORE || kind == UPDATE_AFTER;
  }
}
