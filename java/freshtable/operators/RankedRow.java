package freshtable.operators;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * A row that is there {@code count} times, which is negative if more are taken back than come,
 * and when it arrived.
 */
final class RankedRow {
  final UnsafeRow row;
  long count;
  long arrival;
  /** That of the entry in the store; null if there is none. */
  EntryTime time;

  RankedRow(UnsafeRow row, long count, long arrival) {
    this.row = row;
    this.count = count;
    this.arrival = arrival;
  }
}
