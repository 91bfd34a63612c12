package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.stream.Stream;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors;

/**
 * Reads manifests in the calling thread. For a small number of manifests, this takes less time than starting
 * Iceberg's threads, whose end a waiting thread notices up to 10 ms late.
 */
public final class Manifests {
  /** The maximum number of manifests that the calling thread reads. */
  private static final int MOST = 32;
  private static final ObjectMapper JSON = new ObjectMapper();

  private Manifests() {}

  /**
   * Commits a change that has all its files to a table. Its summary properties are given by a JSON object.
   * {@code removes} says whether it also removes files.
   */
  public static void update(Table table, SnapshotUpdate<?> change, String summary, boolean removes)
      throws JsonProcessingException {
    JSON.readValue(summary, new TypeReference<Map<String, String>>() {}).forEach(change::set);
    if (!removes || areFew(table.currentSnapshot())) {
      change.scanManifestsWith(thisThread());
    }
    change.commit();
  }

  /** Returns a scan of a table at a snapshot. */
  static TableScan scan(Table table, long snapshot) {
    TableScan scan = table.newScan().useSnapshot(snapshot);
    return areFew(table.snapshot(snapshot)) ? scan.planWith(thisThread()) : scan;
  }

  private static ExecutorService thisThread() {
    return MoreExecutors.newDirectExecutorService();
  }

  /** Returns whether a snapshot has few enough manifests, according to its summary. */
  private static boolean areFew(Snapshot snapshot) {
    Map<String, String> summary = snapshot == null ? Map.of() : snapshot.summary();
    String kept = summary.get("manifests-kept");
    String created = summary.get("manifests-created");
    return kept != null && created != null
        && Stream.of(kept, created).mapToLong(Long::parseLong).sum() <= MOST;
  }
}
