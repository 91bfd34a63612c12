package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listeners;

/** Table metadata as JSON, and changes of table metadata given as JSON. */
public final class Metadata {
  static final String MAIN = "main";
  private static final ObjectMapper JSON = new ObjectMapper();

  private Metadata() {}

  /**
   * Returns location, properties, branches except main, column names, the highest sequence number, and the
   * main snapshot, which is null if there is none.
   */
  public static String facts(TableMetadata metadata) throws JsonProcessingException {
    Map<String, String> branches = new HashMap<>();
    metadata.refs().forEach(
        (name, ref) -> {
          if (ref.isBranch() && !name.equals(MAIN)) {
            branches.put(name, Long.toString(ref.snapshotId()));
          }
        });
    List<String> columns = new ArrayList<>();
    metadata.schema().columns().forEach(column -> columns.add(column.name()));
    Map<String, Object> facts = new HashMap<>();
    facts.put("location", metadata.location());
    facts.put("properties", metadata.properties());
    facts.put("branches", branches);
    facts.put("columns", columns);
    facts.put("last-number", metadata.lastSequenceNumber());
    Snapshot main = metadata.currentSnapshot();
    facts.put("main", main == null ? null : JSON.readTree(SnapshotParser.toJson(main)));
    return JSON.writeValueAsString(facts);
  }

  /** Returns, as JSON, the values of the keys with {@code prefix} in the summaries of all snapshots. */
  public static String values(TableMetadata metadata, String prefix) throws JsonProcessingException {
    Set<String> values = new HashSet<>();
    for (Snapshot each : metadata.snapshots()) {
      each.summary().forEach((key, value) -> {
        if (key.startsWith(prefix)) {
          values.add(value);
        }
      });
    }
    return JSON.writeValueAsString(values);
  }

  /** Returns a pending snapshot as one whose operation tells readers that it has changed no rows. */
  public static Snapshot replacing(Snapshot held) throws JsonProcessingException {
    JsonNode snapshot = JSON.readTree(SnapshotParser.toJson(held));
    ((ObjectNode) snapshot.get("summary")).put("operation", "replace");
    return SnapshotParser.fromJson(snapshot.toString());
  }

  /**
   * Commits a change of {@code base}, a version of a table. {@code held} is the pending snapshot to add and
   * publish, or null. Iceberg's listeners are told of a publish.
   */
  public static void commit(Table table, TableMetadata base, Snapshot held, String json)
      throws JsonProcessingException {
    TableMetadata changed = changed(base, held, json);
    ((HasTableOperations) table).operations().commit(base, changed);
    Snapshot main = changed.currentSnapshot();
    if (main != null && main != base.currentSnapshot()) {
      Listeners.notifyAll(
          new CreateSnapshotEvent(
              table.name(), main.operation(), main.snapshotId(), main.sequenceNumber(), main.summary()));
    }
  }

  private static TableMetadata changed(TableMetadata base, Snapshot held, String json)
      throws JsonProcessingException {
    JsonNode change = JSON.readTree(json);
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    if (held != null) {
      builder.addSnapshot(held);
    }
    if (change.hasNonNull("publish")) {
      setMain(builder, base, change.get("publish").asLong());
    }
    change.get("branches").properties()
        .forEach(each -> set(builder, base, each.getKey(), each.getValue().asLong()));
    change.get("drop").forEach(name -> drop(builder, base, name.asText()));
    Map<String, String> properties = new HashMap<>();
    change.get("properties").properties()
        .forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
    builder.setProperties(properties);
    Set<String> removed = new HashSet<>();
    change.get("removed").forEach(key -> removed.add(key.asText()));
    builder.removeProperties(removed);
    return builder.build();
  }

  /** Sets main, which keeps its settings. */
  static void setMain(TableMetadata.Builder builder, TableMetadata base, long snapshot) {
    SnapshotRef before = base.ref(MAIN);
    builder.setRef(MAIN,
        (before == null ? SnapshotRef.branchBuilder(snapshot) : SnapshotRef.builderFrom(before, snapshot))
            .build());
  }

  /**
   * Sets a branch, also to where it is. The builder, and thus a REST catalog, ignores a branch that does not
   * change, so the branch is set to another value first.
   */
  private static void set(TableMetadata.Builder builder, TableMetadata base, String name, long snapshot) {
    SnapshotRef before = base.ref(name);
    if (before != null && before.snapshotId() == snapshot) {
      builder.setRef(name, SnapshotRef.branchBuilder(snapshot).maxRefAgeMs(1L).build());
    }
    builder.setRef(name, SnapshotRef.branchBuilder(snapshot).build());
  }

  /**
   * Drops a branch from where it is. A REST catalog compares only branches that a commit sets, so the branch
   * is set to another value first.
   */
  private static void drop(TableMetadata.Builder builder, TableMetadata base, String name) {
    SnapshotRef before = base.ref(name);
    if (before != null) {
      builder.setRef(name, SnapshotRef.branchBuilder(before.snapshotId()).maxRefAgeMs(1L).build());
      builder.removeRef(name);
    }
  }
}
