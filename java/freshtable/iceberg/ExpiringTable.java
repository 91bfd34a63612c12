package freshtable.iceberg;

import java.util.ConcurrentModificationException;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CommitFailedException;

/**
 * A table of a REST catalog whose snapshots can be expired.
 *
 * <p>The server compares only the branches that a commit sets. If main was rolled back to a snapshot while
 * that expires, the server would remove the snapshot and main, and the client would delete their files. So
 * the commit sets main to what it is. Iceberg would repeat a refused expiry with the snapshots of before, so
 * it gets an error that it does not repeat.
 *
 * <p>Some servers remove the parent from a snapshot whose parent expires. Iceberg would take it for another
 * snapshot and delete the manifests of the one that it knew, so it is shown what was sent.
 */
public final class ExpiringTable {
  private ExpiringTable() {}

  /** Returns a table for one expiry. */
  public static Table of(Table table) {
    return new BaseTable(new Expiring(((HasTableOperations) table).operations()), table.name());
  }

  private static final class Expiring extends DelegatedOperations {
    private TableMetadata sent;

    Expiring(TableOperations operations) {
      super(operations);
    }

    @Override
    public TableMetadata refresh() {
      return sent == null ? super.refresh() : sent;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata changed) {
      TableMetadata.Builder builder = TableMetadata.buildFrom(changed);
      SnapshotRef main = changed.ref(Metadata.MAIN);
      if (main != null && base != changed) {
        // A branch that does not change is not sent, so main is set to another value first.
        builder.setRef(
            Metadata.MAIN, SnapshotRef.builderFrom(main, main.snapshotId()).maxRefAgeMs(1L).build());
        builder.setRef(Metadata.MAIN, main);
      }
      TableMetadata compared = base == changed ? base : builder.build();
      try {
        operations.commit(base, compared);
      } catch (CommitFailedException error) {
        throw new ConcurrentModificationException(error);
      }
      sent = compared;
    }
  }
}
