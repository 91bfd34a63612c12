package freshtable.operators;

/** The result rows of a join type: matching pairs, and rows of which side on their own. */
enum JoinKind {
  INNER(true, false, false),
  LEFT_OUTER(true, true, false),
  RIGHT_OUTER(true, false, true),
  FULL_OUTER(true, true, true),
  LEFT_SEMI(false, true, false),
  LEFT_ANTI(false, true, false);

  /** Whether the result has pairs; otherwise it has rows of the left side. */
  final boolean pairs;
  /**
   * Whether the result has left rows on their own: while they match nothing or, in a semi join, while they
   * match something.
   */
  final boolean left;
  /** Whether the result has right rows on their own while they match nothing. */
  final boolean right;

  JoinKind(boolean pairs, boolean left, boolean right) {
    this.pairs = pairs;
    this.left = left;
    this.right = right;
  }

  /** Returns the kind of a SQL join type, such as LEFT OUTER. */
  static JoinKind of(String sql) {
    return sql.equals("CROSS") ? INNER : valueOf(sql.replace(' ', '_'));
  }

  /**
   * Returns whether a row with {@code matches} matches is in the result on its own, if the join has such rows
   * of its side.
   */
  boolean givesAlone(long matches) {
    return (matches > 0) == (this == LEFT_SEMI);
  }

  /** Returns whether the result has retractions even if both inputs are append-only. */
  boolean takesBack() {
    return (left || right) && this != LEFT_SEMI;
  }
}
