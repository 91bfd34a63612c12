package freshtable.queries;

import java.util.function.Function;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.Table;

/** Brings a table to its current metadata and returns its uuid, the id of its schema and its current snapshot, as JSON. */
public final class TableVersions implements Function<Object, Object> {

  @Override
  public Object apply(Object object) {
    Table table = (Table) object;
    table.refresh();
    Snapshot snapshot = table.currentSnapshot();
    String text = snapshot == null ? "null" : SnapshotParser.toJson(snapshot);
    return "{\"uuid\": \"%s\", \"schema\": %s, \"snapshot\": %s}".formatted(table.uuid(), table.schema().schemaId(), text);
  }
}
