package freshtable.iceberg;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's command that deletes rows of a table by file and position and inserts others:
 * those of any query with its columns.
 */
public final class DeltaCommand {
  private final SparkSession session;
  private final WriteDelta command;

  private DeltaCommand(SparkSession session, WriteDelta command) {
    this.session = session;
    this.command = command;
  }

  /** Returns the command of a MERGE with a table that deletes rows by their places. */
  public static DeltaCommand of(SparkSession session, String merge) throws Exception {
    LogicalPlan plan = session.sessionState()
        .analyzer().execute(session.sessionState().sqlParser().parsePlan(merge));
    if (plan instanceof WriteDelta command) {
      return new DeltaCommand(session, command);
    }
    throw new IllegalArgumentException("Not by the places of rows: " + merge);
  }

  /** Returns the columns of a query whose rows it takes; the first is the number of an operation. */
  public StructType columns() {
    return command.query().schema();
  }

  /** Returns the number of the operation that deletes a row. */
  public int deletes() {
    return RowDeltaUtils.DELETE_OPERATION();
  }

  /** Returns the number of the operation that inserts a row. */
  public int inserts() {
    return RowDeltaUtils.INSERT_OPERATION();
  }

  /** Runs the command for the rows of a query, otherwise as {@code Commands.sql} does. */
  public void run(Dataset<?> query, String summary) throws Exception {
    Commands.run(session, (LogicalPlan) command.withNewQuery(query.queryExecution().analyzed()), summary);
  }
}
