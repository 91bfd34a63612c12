package freshtable.iceberg;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import org.apache.iceberg.spark.CommitMetadata;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Commands of Spark's that write a table: Iceberg takes the summary of a snapshot from the thread
 * that commits it.
 */
public final class Commands {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Commands() {}

  /** Runs a statement whose snapshot has the properties of a JSON object as its summary. */
  public static void sql(SparkSession session, String text, String summary) throws Exception {
    run(session, session.sessionState().sqlParser().parsePlan(text), summary);
  }

  /** Runs the plan of a command, otherwise as {@code sql} does. */
  static void run(SparkSession session, LogicalPlan command, String summary) throws Exception {
    Map<String, String> properties = JSON.readValue(summary, new TypeReference<>() {});
    CommitMetadata.withCommitProperties(properties, () -> Dataset.ofRows(session, command), Exception.class);
  }
}
