package freshtable.iceberg;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The lineage columns of tables of format version 3, as far as they tell whether two rows are the same.
 *
 * <p>A writer copies both columns with each row that it does not change. For a row that it adds or changes,
 * it leaves the sequence number to the commit. This is higher than all before it, also after a rollback and
 * on another branch. So rows of two snapshots with the same lineage are the same row with the same values, if
 * all commits between these snapshots are by such writers.
 */
public final class RowLineage {
  /** The columns that identify a version of a row. */
  public static final StructType COLUMNS =
      new StructType()
          .add("_row_id", DataTypes.LongType)
          .add("_last_updated_sequence_number", DataTypes.LongType);
  /** The field id of the row ids in data files. */
  private static final int ROW_ID = 2147483540;
  private static final String ENGINE = "engine-name";
  private static final String ICEBERG = "iceberg-version";
  private static final Set<String> ENGINES = Set.of("spark");
  private static final Pattern VERSION = Pattern.compile("Apache Iceberg 1\\.(\\d+)\\..*");
  /** Iceberg 1.11 may give rows other ids when it rewrites manifests. */
  private static final int FIRST_MINOR = 12;
  /** Checking an append reads its manifests, and takes longer than it saves if they are more. */
  private static final int MOST_APPENDS = 100;
  private static final String APPEND = "append";

  private final Table table;
  private final long old;
  private final long now;
  private String wrongWriter;

  private RowLineage(Table table, long old, long now) {
    this.table = table;
    this.old = old;
    this.now = now;
  }

  /** Returns the lineage between two snapshots of a table, which are not expired. */
  public static RowLineage between(Table table, long old, long now) {
    return new RowLineage(table, old, now);
  }

  /** Returns whether rows in the files that were rewritten are the same if their lineage is. */
  public boolean identifies(FileDifference files) {
    // Files of format version 2 have no ids. An old snapshot has none even after the upgrade of its table.
    if (wrongWriter != null || !Stream.of(files.gone(), files.come()).flatMap(List::stream)
        .allMatch(task -> task.file().firstRowId() != null)) {
      return false;
    }
    List<Snapshot> between = between();
    return between != null && between.stream().allMatch(RowLineage::isKnown)
        && between.stream().filter(RowLineage::isAppend).count() <= MOST_APPENDS
        && between.stream().filter(RowLineage::isAppend).allMatch(this::addsNewRows);
  }

  /**
   * Returns the snapshots that lead from the last common ancestor of both snapshots to each of them, or null
   * if one of them has expired.
   */
  private List<Snapshot> between() {
    Set<Long> ancestors = new HashSet<>();
    for (Snapshot each = table.snapshot(old); each != null; each = parent(each)) {
      ancestors.add(each.snapshotId());
    }
    List<Snapshot> between = new ArrayList<>();
    Snapshot common = table.snapshot(now);
    for (; common != null && !ancestors.contains(common.snapshotId()); common = parent(common)) {
      between.add(common);
    }
    if (common == null) {
      return null;
    }
    for (Snapshot each = table.snapshot(old); each.snapshotId() != common.snapshotId();) {
      between.add(each);
      each = parent(each);
    }
    return between;
  }

  private Snapshot parent(Snapshot snapshot) {
    return snapshot.parentId() == null ? null : table.snapshot(snapshot.parentId());
  }

  private static boolean isKnown(Snapshot snapshot) {
    Map<String, String> summary = snapshot.summary();
    Matcher version = VERSION.matcher(summary.getOrDefault(ICEBERG, ""));
    return ENGINES.contains(summary.getOrDefault(ENGINE, ""))
        && version.matches() && Integer.parseInt(version.group(1)) >= FIRST_MINOR;
  }

  private static boolean isAppend(Snapshot snapshot) {
    return APPEND.equals(snapshot.operation());
  }

  /** Returns whether no file has the row ids of another table, as a file that add_files added may. */
  private boolean addsNewRows(Snapshot append) {
    return StreamSupport.stream(append.addedDataFiles(table.io()).spliterator(), false)
        .allMatch(RowLineage::hasNewRows);
  }

  private static boolean hasNewRows(DataFile file) {
    Map<Integer, Long> counts = file.valueCounts();
    Map<Integer, Long> nulls = file.nullValueCounts();
    if (counts == null || counts.isEmpty() || nulls == null) {
      return false;
    }
    return counts.getOrDefault(ROW_ID, 0L).equals(nulls.getOrDefault(ROW_ID, 0L));
  }

  /** Notes that two rows with the same lineage differ, so that it is not used again. */
  public void disprove() {
    wrongWriter = between().stream().filter(each -> !isAppend(each)).findFirst()
        .map(RowLineage::writer).orElse("");
  }

  private static String writer(Snapshot snapshot) {
    return "snapshot %d by %s, %s".formatted(
        snapshot.snapshotId(), snapshot.summary().get(ENGINE), snapshot.summary().get(ICEBERG));
  }

  /** Returns the newest snapshot that may have wrong lineage, with its writer, or null if none is known. */
  public String wrongWriter() {
    return wrongWriter;
  }
}
