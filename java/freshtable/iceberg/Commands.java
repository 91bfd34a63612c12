package freshtable.iceberg;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import org.apache.iceberg.spark.CommitMetadata;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Spark commands that write a table with snapshot summary properties, which Iceberg reads from the committing
 * thread.
 */
public final class Commands {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Commands() {}

  /** Runs a statement. The summary properties of its snapshot are given by a JSON object. */
  public static void sql(SparkSession session, String text, String summary) throws Exception {
    run(session, session.sessionState().sqlParser().parsePlan(text), summary);
  }

  /** Runs the plan of a command in the same way. */
  static void run(SparkSession session, LogicalPlan command, String summary) throws Exception {
    Map<String, String> properties = JSON.readValue(summary, new TypeReference<>() {});
    CommitMetadata.withCommitProperties(properties, () -> Dataset.ofRows(session, command), Exception.class);
  }
}
