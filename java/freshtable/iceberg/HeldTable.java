package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.io.FileIO;

/**
 * A table whose commits are held: they write data files and manifests, but the catalog learns of the snapshot
 * only when it is added to the table's metadata ({@code Metadata.commit}).
 *
 * <p>It is a fixed version of the table, and never reads a newer one. Updates of Iceberg and commands of
 * Spark write to it like to any other table.
 */
public final class HeldTable extends BaseTable {
  private final String name;
  private final Held held;

  private HeldTable(String name, Held held) {
    // Iceberg's listeners are told of commits to a table without a name, which nobody waits for.
    super(held, "");
    this.name = name;
    this.held = held;
  }

  /** Returns a version of a table, as if {@code main} was its main snapshot. */
  public static HeldTable of(Table table, TableMetadata metadata, Long main) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(metadata);
    if (main != null) {
      Metadata.setMain(builder, metadata, main);
    }
    TableOperations operations = ((HasTableOperations) table).operations();
    return new HeldTable(table.name(), new Held(operations, builder.build()));
  }

  @Override
  public String name() {
    return name;
  }

  /** Returns the snapshot that was committed to this table, or null before the first commit. */
  public Snapshot pending() {
    Snapshot main = held.current().currentSnapshot();
    Snapshot before = held.begun.currentSnapshot();
    return main == null || before != null && main.snapshotId() == before.snapshotId() ? null : main;
  }

  /**
   * Deletes the files of a pending snapshot that will never be published. Nothing is deleted if the table has
   * the snapshot: a commit that was reported as refused may have landed.
   */
  public static void discard(Table table, Snapshot pending) {
    table.refresh();
    if (table.snapshot(pending.snapshotId()) != null) {
      return;
    }
    FileIO files = table.io();
    List<String> gone = new ArrayList<>();
    pending.addedDataFiles(files).forEach(file -> gone.add(file.location()));
    pending.addedDeleteFiles(files).forEach(file -> gone.add(file.location()));
    pending.allManifests(files).stream()
        .filter(manifest -> Objects.equals(manifest.snapshotId(), pending.snapshotId()))
        .forEach(manifest -> gone.add(manifest.path()));
    gone.add(pending.manifestListLocation());
    CatalogUtil.deleteFiles(files, gone, "unpublished");
  }

  /** Commits the change of files of another pending snapshot to this table. The summary is a JSON object. */
  public Snapshot repeat(Snapshot other, String summary) throws JsonProcessingException {
    RowDelta change = newRowDelta();
    other.addedDataFiles(io()).forEach(change::addRows);
    other.removedDataFiles(io()).forEach(change::removeRows);
    other.addedDeleteFiles(io()).forEach(change::addDeletes);
    other.removedDeleteFiles(io()).forEach(change::removeDeletes);
    Manifests.update(this, change, summary, false);
    return pending();
  }

  /** The operations of one version, which end at it. */
  private static final class Held extends DelegatedOperations {
    private final TableMetadata begun;
    private TableMetadata metadata;

    Held(TableOperations operations, TableMetadata begun) {
      super(operations);
      this.begun = begun;
      this.metadata = begun;
    }

    @Override
    public synchronized TableMetadata current() {
      return metadata;
    }

    @Override
    public TableMetadata refresh() {
      return current();
    }

    @Override
    public synchronized void commit(TableMetadata base, TableMetadata changed) {
      if (base != begun || metadata != begun) {
        throw new IllegalStateException("a second commit to one version of a table");
      }
      metadata = changed;
    }
  }
}
