package freshtable.operators;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * A row with its arrival number and its {@code count}, which is negative if a batch retracts more copies of
 * it than it adds.
 */
final class RankedRow {
  final UnsafeRow row;
  long count;
  long arrival;
  /** The times of the stored entry, or null if there is none. */
  EntryTime time;

  RankedRow(UnsafeRow row, long count, long arrival) {
    this.row = row;
    this.count = count;
    this.arrival = arrival;
  }
}
