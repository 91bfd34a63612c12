package freshtable.files;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.iceberg.FileScanTask;

/**
 * The difference between two multisets of row hashes.
 *
 * <p>The hashes of each file are first added up by bucket, those of one side negatively. If the sum of a
 * bucket is 0, each of its rows has an equal row on the other side. Only the hashes in other buckets, which
 * are few if few rows differ, are sorted and compared one by one.
 */
final class HashDifference {
  private static final int ROWS_OF_BUCKET = 16;
  private static final int FEWEST_BITS = 8;
  private static final int MOST_BITS = 20;
  /** The maximum number of threads that add hashes, each to a copy of the sums. */
  private static final int MOST_ADDING = 4;
  /** The estimate of different rows is never off by more than this factor. */
  private static final double UNCERTAINTY = 1.5;

  private final int shift;
  private final int most;
  /** Partial sums. Each thread that adds hashes takes one of them. */
  private final Queue<long[]> partial = new ConcurrentLinkedQueue<>();
  private final Semaphore adding = new Semaphore(MOST_ADDING);
  private long[] sums;

  /** The hashes of a file's rows by position. Rows that are not {@code live} are deleted. */
  record Hashes(FileScanTask task, long[] hashes, BitSet live) {
    Hashes(FileScanTask task, int rows) {
      this(task, new long[rows], new BitSet(rows));
    }
  }

  /** Some positions in a file, in ascending order. */
  record Places(FileScanTask task, long[] places) {}

  /** The hashes of some rows of a file, and their positions. */
  private record Candidates(FileScanTask task, long[] hashes, int[] places) {}

  /** Distinct hashes in ascending order, each with the number of rows that have no equal row. */
  private record Rest(long[] hashes, int[] counts) {}

  /** Expects this number of rows on each side. At most {@code most} rows may differ. */
  HashDifference(long rows, int most) {
    int bits = Long.SIZE - Long.numberOfLeadingZeros(rows / ROWS_OF_BUCKET);
    this.shift = Long.SIZE - Math.max(FEWEST_BITS, Math.min(MOST_BITS, bits));
    this.most = most;
  }

  /** Adds the hashes of a file, with sign -1 or 1 for its side. Thread-safe. */
  void add(Hashes file, int sign) {
    long[] hashes = file.hashes();
    BitSet live = file.live();
    adding.acquireUninterruptibly();
    long[] given = partial.poll();
    long[] added = given == null ? new long[1 << Long.SIZE - shift] : given;
    for (int first = live.nextSetBit(0); first >= 0; ) {
      int end = live.nextClearBit(first);
      for (int row = first; row < end; row++) {
        added[(int) (hashes[row] >>> shift)] += sign * hashes[row];
      }
      first = live.nextSetBit(end);
    }
    partial.add(added);
    adding.release();
  }

  /**
   * Returns, for each side, the places of the rows without an equal row on the other side. Returns null if
   * there are more than {@code most}, or if {@code distinct} rows are on one side twice.
   */
  List<List<Places>> places(List<Hashes> before, List<Hashes> after, boolean distinct) {
    sums = partial.stream().reduce(HashDifference::sum).orElseThrow();
    if (areMore()) {
      return null;
    }
    List<ReadingThreads.Reading<Candidates>> works = new ArrayList<>();
    Stream.of(before, after).flatMap(List::stream).forEach(file -> works.add(() -> candidates(file)));
    List<Candidates> all = ReadingThreads.allWhole(works);
    List<Candidates> old = all.subList(0, before.size());
    List<Candidates> now = all.subList(before.size(), all.size());
    long[] gone = sorted(old);
    long[] come = sorted(now);
    if (distinct && (isTwice(gone) || isTwice(come))) {
      return null;
    }
    List<Places> removed = places(old, rest(gone, come));
    List<Places> added = places(now, rest(come, gone));
    long rows = Stream.of(removed, added).flatMap(List::stream).mapToLong(each -> each.places().length).sum();
    return rows > most ? null : List.of(removed, added);
  }

  private static boolean isTwice(long[] sorted) {
    return IntStream.range(1, sorted.length).anyMatch(next -> sorted[next - 1] == sorted[next]);
  }

  private static long[] sum(long[] some, long[] others) {
    for (int bucket = 0; bucket < some.length; bucket++) {
      some[bucket] += others[bucket];
    }
    return some;
  }

  /**
   * Estimates from the number of buckets that they hit whether too many rows differ. To compare them would
   * take as much memory as all rows. Few buckets say nothing, but then there are few rows.
   */
  private boolean areMore() {
    double hit = (double) Arrays.stream(sums).filter(sum -> sum != 0).count() / sums.length;
    return UNCERTAINTY * most < 3.0 * sums.length
        && -Math.log1p(-hit) * sums.length > UNCERTAINTY * most;
  }

  private Candidates candidates(Hashes file) {
    long[] hashes = file.hashes();
    BitSet live = file.live();
    IntStream.Builder places = IntStream.builder();
    for (int first = live.nextSetBit(0); first >= 0; ) {
      int end = live.nextClearBit(first);
      for (int row = first; row < end; row++) {
        if (sums[(int) (hashes[row] >>> shift)] != 0) {
          places.add(row);
        }
      }
      first = live.nextSetBit(end);
    }
    int[] found = places.build().toArray();
    return new Candidates(file.task(), Arrays.stream(found).mapToLong(row -> hashes[row]).toArray(), found);
  }

  private static long[] sorted(List<Candidates> side) {
    long[] hashes = side.stream().map(Candidates::hashes).flatMapToLong(LongStream::of).toArray();
    Arrays.sort(hashes);
    return hashes;
  }

  /** Returns the hashes that {@code some} has more often than {@code others}. Both are sorted. */
  private static Rest rest(long[] some, long[] others) {
    long[] hashes = new long[some.length];
    int[] counts = new int[some.length];
    int rest = 0;
    int other = 0;
    for (int first = 0; first < some.length; ) {
      long hash = some[first];
      int count = 0;
      for (; first < some.length && some[first] == hash; first++) {
        count++;
      }
      while (other < others.length && others[other] < hash) {
        other++;
      }
      for (; other < others.length && others[other] == hash; other++) {
        count--;
      }
      if (count > 0) {
        hashes[rest] = hash;
        counts[rest++] = count;
      }
    }
    return new Rest(Arrays.copyOf(hashes, rest), Arrays.copyOf(counts, rest));
  }

  /** Returns where the rows with the hashes of {@code rest} are. It does not matter which of equal rows. */
  private static List<Places> places(List<Candidates> side, Rest rest) {
    List<Places> all = new ArrayList<>();
    for (Candidates file : side) {
      LongStream.Builder places = LongStream.builder();
      for (int number = 0; number < file.hashes().length; number++) {
        int found = Arrays.binarySearch(rest.hashes(), file.hashes()[number]);
        if (found >= 0 && rest.counts()[found] > 0) {
          rest.counts()[found]--;
          places.add(file.places()[number]);
        }
      }
      long[] given = places.build().toArray();
      if (given.length > 0) {
        all.add(new Places(file.task(), given));
      }
    }
    return all;
  }
}
