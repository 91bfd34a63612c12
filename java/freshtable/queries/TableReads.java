package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import freshtable.driver.LimitedReads;
import java.util.List;
import java.util.function.Function;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableUtil;

/**
 * Reads the current state of tables independently of each other. Results are those of {@code LimitedReads},
 * as JSON.
 */
public final class TableReads {
  private static final LimitedReads READS = new LimitedReads();
  private static final ObjectMapper JSON = new ObjectMapper();

  private TableReads() {}

  /** Reads the locations of the tables' current metadata. */
  public static String locations(List<Table> tables, long waitMs, long limitMs) throws Exception {
    return of(
        tables, table -> location(((HasTableOperations) table).operations().refresh()),
        waitMs, limitMs, false);
  }

  /** Refreshes tables to their current metadata. */
  public static String refreshed(List<Table> tables, long waitMs, long limitMs) throws Exception {
    return of(
        tables,
        table -> {
          ((Table) table).refresh();
          return "";
        },
        waitMs,
        limitMs,
        false);
  }

  /** Refreshes tables, and returns their UUID, schema id and snapshot as fresh texts. */
  public static String versions(List<Table> tables, long waitMs, long limitMs) throws Exception {
    return of(tables, table -> version((Table) table), waitMs, limitMs, true);
  }

  /** Reads a text of each object with a function. */
  public static String of(
      List<?> objects, Function<Object, Object> function, long waitMs, long limitMs, boolean fresh)
      throws InterruptedException, JsonProcessingException {
    return JSON.writeValueAsString(READS.of(objects, function, waitMs, limitMs, fresh));
  }

  /** Returns the current snapshot of a table at its last refresh, or an empty string if there is none. */
  public static String snapshot(Table table) {
    Snapshot snapshot = table.currentSnapshot();
    return snapshot == null ? "" : Long.toString(snapshot.snapshotId());
  }

  /**
   * Returns the snapshot of a branch or tag at the table's last refresh, or the location of the table's
   * metadata if there is no such reference.
   */
  public static String moving(Table table, String reference) {
    SnapshotRef found = reference == null ? null : table.refs().get(reference);
    return found == null ? TableUtil.metadataFileLocation(table) : Long.toString(found.snapshotId());
  }

  private static String location(TableMetadata metadata) {
    String location = metadata.metadataFileLocation();
    if (location == null) {
      throw new IllegalStateException(
          "the server of its catalog does not send the location of the table's metadata, by which Iceberg "
              + "recognizes a change");
    }
    return location;
  }

  /** Returns a snapshot in Iceberg's stored form, or null if the table does not have it. */
  public static String stored(Table table, long id) {
    Snapshot snapshot = table.snapshot(id);
    return snapshot == null ? null : SnapshotParser.toJson(snapshot);
  }

  private static String version(Table table) {
    table.refresh();
    Snapshot snapshot = table.currentSnapshot();
    String text = snapshot == null ? "null" : SnapshotParser.toJson(snapshot);
    return "{\"uuid\": \"%s\", \"schema\": %s, \"snapshot\": %s}".formatted(
        table.uuid(), table.schema().schemaId(), text);
  }
}
