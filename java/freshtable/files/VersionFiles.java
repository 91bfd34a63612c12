package freshtable.files;

import freshtable.iceberg.ColumnRanges;
import freshtable.iceberg.FileDifference;
import freshtable.iceberg.TableFiles;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.spark.sql.types.StructType;

/**
 * The data files of a version of a table, with the footers and deleted positions that look-ups have read.
 *
 * <p>Deleted positions are read when a look-up reads the file for the first time. A later version takes over
 * all files whose deletes have not changed.
 */
public final class VersionFiles {
  /** The number of files whose footers are read rather than more manifests. */
  private static final int FEW = 64;
  /** The number of deleted positions that take as much memory as a file. */
  private static final int POSITIONS_OF_FILE = 500;

  private final List<FileScanTask> tasks;
  private final Map<String, FileScanTask> byLocation = new HashMap<>();
  private final Map<String, OpenedFile.Contents> contents = new ConcurrentHashMap<>();
  /** What manifests have said about columns, by field id. It may lack files. */
  private final Map<Integer, ColumnRanges> ranges = new ConcurrentHashMap<>();
  private final Lock opening = new ReentrantLock();
  private final Long snapshot;
  private final long positions;

  /** A file and its task. {@code opened} is null if our reader does not support the file or its deletes. */
  record File(FileScanTask task, OpenedFile opened) {}

  private VersionFiles(Collection<FileScanTask> tasks, Long snapshot) {
    this.snapshot = snapshot;
    this.tasks = List.copyOf(tasks);
    tasks.forEach(task -> byLocation.put(task.file().location(), task));
    Set<String> counted = new HashSet<>();
    positions = tasks.stream().flatMap(task -> task.deletes().stream()).filter(OpenedFiles::isPositions)
        .filter(file -> counted.add(file.location() + "@" + file.contentOffset()))
        .mapToLong(DeleteFile::recordCount).sum();
  }

  /** Returns the files of scan tasks. */
  static VersionFiles of(Collection<FileScanTask> tasks) {
    return new VersionFiles(tasks, null);
  }

  /**
   * Returns the files of a version, with what look-ups have read of the same files {@code before}, in another
   * version, which may be null.
   */
  public static VersionFiles of(TableFiles files, VersionFiles before) {
    VersionFiles now = new VersionFiles(files.tasks(), files.snapshot());
    if (before != null) {
      now.ranges.putAll(before.ranges);
      before.contents.forEach(
          (location, read) -> {
            FileScanTask task = now.byLocation.get(location);
            if (task != null && FileDifference.haveSameDeletes(task, before.byLocation.get(location))) {
              now.contents.put(location, read);
            }
          });
    }
    return now;
  }

  /** Returns the number of files. */
  public int count() {
    return tasks.size();
  }

  /** Returns the size in a cache, in files. Deleted positions, of which all may be read, count as well. */
  public long weight() {
    return count() + positions / POSITIONS_OF_FILE;
  }

  /** Returns the number of files of which deleted positions and footers are kept. */
  public int opened() {
    return contents.size();
  }

  /** Returns the number of deleted positions. */
  long positions() {
    return positions;
  }

  /** Returns whether a file was added twice, so that a location does not name its task. */
  boolean isTwice() {
    return byLocation.size() < tasks.size();
  }

  /** Says whether a file may have values within a range. */
  interface Choice {
    boolean takes(ColumnRanges.Range range);
  }

  /**
   * Returns the tasks of the files whose columns, given by field id, may have values that are looked up. If
   * there are few files, all are returned, since their footers tell more.
   */
  List<FileScanTask> tasks(Table table, Map<Integer, Choice> columns) throws IOException {
    if (tasks.size() <= FEW || snapshot == null || columns.isEmpty()) {
      return tasks;
    }
    read(table, columns.keySet());
    return tasks.stream()
        .filter(
            task -> columns.entrySet().stream()
                .allMatch(
                    column -> {
                      ColumnRanges.Range range =
                          ranges.get(column.getKey()).of(task.file().location(), column.getKey());
                      return range == null || column.getValue().takes(range);
                    }))
        .toList();
  }

  /** Reads the ranges of columns, unless those of nearly all files are known. */
  private void read(Table table, Set<Integer> ids) throws IOException {
    int[] due = ids.stream().filter(id -> !isKnown(id)).mapToInt(Integer::intValue).toArray();
    if (due.length > 0) {
      ColumnRanges read = ColumnRanges.of(table, snapshot, due);
      Arrays.stream(due).forEach(id -> ranges.put(id, read));
    }
  }

  private boolean isKnown(int id) {
    ColumnRanges known = ranges.get(id);
    return known != null
        && tasks.stream().filter(task -> known.of(task.file().location(), id) == null).count() <= FEW;
  }

  /**
   * Returns, as JSON, the numbers of integers between the lowest and the highest value of each column. They
   * are -1 if this is unknown for a file.
   */
  public String spans(Table table, StructType columns) throws IOException {
    int[] ids = OpenedFiles.ids(table, columns);
    read(table, Arrays.stream(ids).boxed().collect(Collectors.toSet()));
    return Arrays.stream(ids).mapToObj(id -> String.valueOf(span(id))).collect(Collectors.joining(",", "[", "]"));
  }

  private long span(int id) {
    long low = Long.MAX_VALUE;
    long high = Long.MIN_VALUE;
    for (FileScanTask task : tasks) {
      ColumnRanges.Range range = ranges.get(id).of(task.file().location(), id);
      // A few files may be newer than what is known.
      if (range != null) {
        low = Math.min(low, range.low());
        high = Math.max(high, range.high());
      }
    }
    long span = high - low + 1;
    return low <= high && span > 0 ? span : -1;
  }

  /** Returns files of this version, or null if the deleted positions of one of them cannot be read. */
  List<File> open(Table table, List<FileScanTask> some) throws InterruptedException {
    // Look-ups of several refreshes do not read the same positions at the same time.
    opening.lockInterruptibly();
    try {
      List<FileScanTask> due = some.stream()
          .filter(task -> OpenedFiles.isRead(table, task) && !contents.containsKey(task.file().location()))
          .toList();
      List<OpenedFile> opened = OpenedFiles.positions(table, due);
      if (opened == null) {
        return null;
      }
      for (int number = 0; number < due.size(); number++) {
        contents.put(due.get(number).file().location(), opened.get(number).contents());
      }
    } finally {
      opening.unlock();
    }
    return some.stream().map(task -> new File(task, opened(table, task))).toList();
  }

  private OpenedFile opened(Table table, FileScanTask task) {
    OpenedFile.Contents read = contents.get(task.file().location());
    // A table's FileIO may have credentials that expire, so that of the look-up's table is used.
    return read == null ? null : new OpenedFile(table.io().newInputFile(task.file()), read);
  }
}
