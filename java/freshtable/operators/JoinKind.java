package freshtable.operators;

/**
 * The result rows of a join type: matching pairs, single rows of the left side, and single rows of the right
 * side.
 */
enum JoinKind {
  INNER(true, false, false),
  LEFT_OUTER(true, true, false),
  RIGHT_OUTER(true, false, true),
  FULL_OUTER(true, true, true),
  LEFT_SEMI(false, true, false),
  LEFT_ANTI(false, true, false);

  /** True if the result has pairs. If not, it has only rows of the left side. */
  final boolean pairs;
  /**
   * True if the result has single left rows. They are in the result while they have no match or, in a semi
   * join, while they have one.
   */
  final boolean left;
  /** True if the result has single right rows, while they have no match. */
  final boolean right;

  JoinKind(boolean pairs, boolean left, boolean right) {
    this.pairs = pairs;
    this.left = left;
    this.right = right;
  }

  /** Returns the kind of an SQL join type, such as LEFT OUTER. */
  static JoinKind of(String sql) {
    return sql.equals("CROSS") ? INNER : valueOf(sql.replace(' ', '_'));
  }

  /**
   * Returns whether a row with {@code matches} matches is in the result as a single row, if the join has
   * single rows of its side.
   */
  boolean givesAlone(long matches) {
    return (matches > 0) == (this == LEFT_SEMI);
  }

  /** Returns whether the result has retractions even if both inputs are append-only. */
  boolean takesBack() {
    return (left || right) && this != LEFT_SEMI;
  }
}
