package freshtable.iceberg;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileScanTask;

/**
 * The files by which two snapshots of a table differ.
 *
 * <p>Files that both have with other deleted positions are <em>redeleted</em>: only the rows at these
 * positions differ. All other files are only in the old snapshot (<em>gone</em>) or only in the new one
 * (<em>come</em>). A file whose equality deletes differ is both, since these do not name rows.
 */
public final class FileDifference {
  private final List<FileScanTask> gone = new ArrayList<>();
  private final List<FileScanTask> come = new ArrayList<>();
  private final List<FileScanTask> before = new ArrayList<>();
  private final List<FileScanTask> after = new ArrayList<>();
  private final Set<Deletes> counted = new HashSet<>();
  private long positions;
  private long redeletedBytes;

  /** A delete file, or a deletion vector at an offset in a file. */
  private record Deletes(String location, Long offset, long rows, boolean equality) {
    Deletes(DeleteFile file) {
      this(file.location(), file.contentOffset(), file.recordCount(),
          file.content() == FileContent.EQUALITY_DELETES);
    }
  }

  FileDifference() {}

  /** Adds the tasks of a file at both snapshots. One of them may be null. */
  void add(FileScanTask old, FileScanTask now) {
    if (old != null && now != null) {
      Set<Deletes> deletes = deletes(old);
      Set<Deletes> later = deletes(now);
      if (deletes.equals(later)) {
        return;
      }
      List<Deletes> others = Stream.concat(
          deletes.stream().filter(each -> !later.contains(each)),
          later.stream().filter(each -> !deletes.contains(each))).toList();
      if (others.stream().noneMatch(Deletes::equality)) {
        redelete(old, now, others);
        return;
      }
    }
    if (old != null) {
      gone.add(old);
    }
    if (now != null) {
      come.add(now);
    }
  }

  /** Returns whether two tasks that read the same file also read the same delete files. */
  public static boolean haveSameDeletes(FileScanTask one, FileScanTask other) {
    return deletes(one).equals(deletes(other));
  }

  private static Set<Deletes> deletes(FileScanTask task) {
    if (task.deletes().isEmpty()) {
      return Set.of();
    }
    Set<Deletes> deletes = new HashSet<>();
    task.deletes().forEach(each -> deletes.add(new Deletes(each)));
    return deletes;
  }

  private void redelete(FileScanTask old, FileScanTask now, List<Deletes> others) {
    before.add(old);
    after.add(now);
    long rows = Math.max(1, now.file().recordCount());
    List<Deletes> vectors = others.stream().filter(each -> each.offset() != null).toList();
    long most;
    if (vectors.size() == 2 && others.size() == 2) {
      // A deletion vector replaces the one before, whose positions it contains.
      most = Math.max(1, Math.abs(vectors.get(1).rows() - vectors.get(0).rows()));
      positions += most;
    } else {
      most = others.stream().mapToLong(Deletes::rows).sum();
      // A delete file may apply to many data files.
      positions += others.stream().filter(counted::add).mapToLong(Deletes::rows).sum();
    }
    redeletedBytes += (old.sizeBytes() + now.sizeBytes()) * Math.min(most, rows) / rows;
  }

  /** Returns the tasks of files that only the old snapshot has. */
  public List<FileScanTask> gone() {
    return gone;
  }

  /** Returns the tasks of files that only the new snapshot has. */
  public List<FileScanTask> come() {
    return come;
  }

  /** Returns the tasks of redeleted files at the old snapshot. */
  public List<FileScanTask> before() {
    return before;
  }

  /** Returns the tasks of redeleted files at the new snapshot, in the order of {@link #before}. */
  public List<FileScanTask> after() {
    return after;
  }

  /** Returns the tasks of all files at the old snapshot, for a reader that does not know positions. */
  public List<FileScanTask> allBefore() {
    return Stream.concat(gone.stream(), before.stream()).toList();
  }

  /** Returns the tasks of all files at the new snapshot, for a reader that does not know positions. */
  public List<FileScanTask> allAfter() {
    return Stream.concat(come.stream(), after.stream()).toList();
  }

  /** Returns the number of files, each counted once for each snapshot that has it. */
  public int files() {
    return gone.size() + come.size() + before.size() + after.size();
  }

  /** Returns the bytes to read: of redeleted files, only in proportion to the positions. */
  public long bytes() {
    return redeletedBytes
        + Stream.concat(gone.stream(), come.stream()).mapToLong(FileScanTask::sizeBytes).sum();
  }

  /**
   * Returns the maximum number of rows to read: of redeleted files, only those at the positions. It is an
   * estimate for deletion vectors of versions that do not descend from each other.
   */
  public long rows() {
    return positions + LongStream.concat(counts(gone), counts(come)).sum();
  }

  /**
   * Returns whether files were rewritten, so that some of the rows may only have been copied. Otherwise each
   * row that is read differs.
   */
  public boolean isRewrite() {
    return !gone.isEmpty() && !come.isEmpty();
  }

  private static LongStream counts(List<FileScanTask> tasks) {
    return tasks.stream().mapToLong(task -> task.file().recordCount());
  }
}
