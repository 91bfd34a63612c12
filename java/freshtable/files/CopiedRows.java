package freshtable.files;

import freshtable.files.HashDifference.Hashes;
import freshtable.files.HashDifference.Places;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.iceberg.FileScanTask;

/**
 * A sample of the rows that both sides of a comparison have, according to their hashes.
 *
 * <p>It is the same for the same files: consecutive rows from the middle of some files, so that few pages
 * have to be read, or all rows if there are few.
 */
final class CopiedRows {
  private static final int MOST = 1000;
  private static final int MOST_OF_FILE = 250;
  private static final int FILTER_BITS = 16;

  private final Map<FileScanTask, long[]> others = new IdentityHashMap<>();
  /** Some bits of the hashes in the sample, since nearly all rows of the first side are not in it. */
  private final BitSet filter = new BitSet(1 << FILTER_BITS);
  private final List<Places> come = new ArrayList<>();
  private long[] hashes = {};

  /** Ignores the rows that only one side has. */
  private CopiedRows(List<List<Places>> others) {
    others.forEach(side -> side.forEach(each -> this.others.put(each.task(), each.places())));
  }

  /**
   * Returns the places of the sample on each side. {@code others} are the places of the rows that the other
   * side does not have.
   */
  static List<List<Places>> sample(List<Hashes> before, List<Hashes> after, List<List<Places>> others) {
    CopiedRows copied = new CopiedRows(others);
    copied.choose(after);
    return List.of(copied.found(before), copied.come);
  }

  private void choose(List<Hashes> files) {
    LongStream.Builder chosen = LongStream.builder();
    int left = MOST;
    int step = Math.max(1, files.size() * MOST_OF_FILE / MOST);
    for (int first = 0; first < step; first++) {
      for (int number = first; number < files.size() && left > 0; number += step) {
        Hashes file = files.get(number);
        long[] places = copies(file).limit(Math.min(left, MOST_OF_FILE)).toArray();
        if (places.length > 0) {
          left -= places.length;
          Arrays.stream(places).map(place -> file.hashes()[(int) place]).forEach(chosen);
          come.add(new Places(file.task(), places));
        }
      }
    }
    hashes = chosen.build().sorted().toArray();
    Arrays.stream(hashes).mapToInt(CopiedRows::bits).forEach(filter::set);
  }

  /** Returns the positions of copied rows in a file, from about its middle on. */
  private LongStream copies(Hashes file) {
    int first = Math.max(0, (file.hashes().length - MOST_OF_FILE) / 2);
    long[] skipped = others.getOrDefault(file.task(), new long[0]);
    return IntStream.range(first, file.hashes().length).filter(file.live()::get).asLongStream()
        .filter(place -> Arrays.binarySearch(skipped, place) < 0);
  }

  private static int bits(long hash) {
    return (int) (hash >>> Long.SIZE - FILTER_BITS);
  }

  /** Returns where the rows of the sample are on the first side. */
  private List<Places> found(List<Hashes> files) {
    boolean[] isFound = new boolean[hashes.length];
    List<Places> all = new ArrayList<>();
    for (Hashes file : files) {
      long[] skipped = others.getOrDefault(file.task(), new long[0]);
      long[] places = file.live().stream()
          .filter(place -> filter.get(bits(file.hashes()[place])))
          .asLongStream()
          .filter(place -> Arrays.binarySearch(skipped, place) < 0
              && isNext(file.hashes()[(int) place], isFound))
          .toArray();
      if (places.length > 0) {
        all.add(new Places(file.task(), places));
      }
    }
    return all;
  }

  private boolean isNext(long hash, boolean[] isFound) {
    int number = Arrays.binarySearch(hashes, hash);
    if (number < 0 || isFound[number]) {
      return false;
    }
    isFound[number] = true;
    return true;
  }
}
