package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;

/** Table metadata as JSON, and changes of table metadata given as JSON. */
public final class Metadata {
  private static final String MAIN = "main";
  private static final ObjectMapper JSON = new ObjectMapper();

  private Metadata() {}

  /**
   * Returns location, properties, branches except main, column names, and the main snapshot, which is null if
   * there is none.
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
    Snapshot main = metadata.currentSnapshot();
    facts.put("main", main == null ? null : JSON.readTree(SnapshotParser.toJson(main)));
    return JSON.writeValueAsString(facts);
  }

  /** Returns {@code base} with a change. {@code held} is the pending snapshot to add and publish, or null. */
  public static TableMetadata changed(TableMetadata base, Snapshot held, String json)
      throws JsonProcessingException {
    JsonNode change = JSON.readTree(json);
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    if (held != null) {
      builder.addSnapshot(held);
    }
    SnapshotRef before = base.ref(MAIN);
    Long main = before == null ? null : before.snapshotId();
    if (change.hasNonNull("publish")) {
      main = Long.parseLong(change.get("publish").asText());
      builder.setRef(MAIN,
          (before == null ? SnapshotRef.branchBuilder(main) : SnapshotRef.builderFrom(before, main)).build());
    }
    if (change.hasNonNull("branch")) {
      builder.setRef(change.get("branch").asText(), SnapshotRef.branchBuilder(main).build());
    }
    change.get("drop").forEach(name -> builder.removeRef(name.asText()));
    Map<String, String> properties = new HashMap<>();
    change.get("properties").properties()
        .forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
    builder.setProperties(properties);
    Set<String> removed = new HashSet<>();
    change.get("removed").forEach(key -> removed.add(key.asText()));
    builder.removeProperties(removed);
    return builder.build();
  }
}
