package freshtable.operators;

/** What a join gives: pairs of rows that match, and which rows of a side by themselves. */
enum JoinKind {
  INNER(true, false, false),
  LEFT_OUTER(true, true, false),
  RIGHT_OUTER(true, false, true),
  FULL_OUTER(true, true, true),
  LEFT_SEMI(false, true, false),
  LEFT_ANTI(false, true, false);

  /** Whether the join gives pairs; else it gives rows of the left side. */
  final boolean pairs;
  /**
   * Whether it gives rows of the left side by themselves, as long as they match none of the right one;
   * a semi join if they match.
   */
  final boolean left;
  /** Whether it does so with rows of the right side. */
  final boolean right;

  JoinKind(boolean pairs, boolean left, boolean right) {
    this.pairs = pairs;
    this.left = left;
    this.right = right;
  }

  /** Returns that of a join type by its name in SQL, such as LEFT OUTER. */
  static JoinKind of(String sql) {
    return sql.equals("CROSS") ? INNER : valueOf(sql.replace(' ', '_'));
  }

  /**
   * Returns whether a row that matches {@code matches} others is given by itself,
   * if the join gives rows of its side at all.
   */
  boolean givesAlone(long matches) {
    return (matches > 0) == (this == LEFT_SEMI);
  }

  /** Returns whether the result has rows that are taken back, though the inputs only add. */
  boolean takesBack() {
    return (left || right) && this != LEFT_SEMI;
  }
}
