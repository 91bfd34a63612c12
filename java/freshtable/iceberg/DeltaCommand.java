package freshtable.iceberg;

import org.apache.iceberg.Table;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's command that deletes rows by file and position and inserts others. Its input may be any query with
 * its columns.
 */
public final class DeltaCommand {
  private final SparkSession session;
  private final WriteDelta command;

  private DeltaCommand(SparkSession session, WriteDelta command) {
    this.session = session;
    this.command = command;
  }

  /** Returns the command of a MERGE into a table, called {@code held}, that deletes rows by position. */
  public static DeltaCommand of(
      SparkSession session, Table table, String catalog, String merge) throws Exception {
    LogicalPlan plan =
        session.sessionState().analyzer().execute(Commands.merge(session, table, catalog, merge));
    if (plan instanceof WriteDelta command) {
      return new DeltaCommand(session, command);
    }
    throw new IllegalArgumentException("Not by the places of rows: " + merge);
  }

  /** Returns the input columns of the command. The first column is the operation code. */
  public StructType columns() {
    return command.query().schema();
  }

  /** Returns the operation code of a delete. */
  public int deletes() {
    return RowDeltaUtils.DELETE_OPERATION();
  }

  /** Returns the operation code of an insert. */
  public int inserts() {
    return RowDeltaUtils.INSERT_OPERATION();
  }

  /** Runs the command with the rows of a query. The summary is a JSON object. */
  public void run(Dataset<?> query, String summary) throws Exception {
    Commands.run(session, (LogicalPlan) command.withNewQuery(query.queryExecution().analyzed()), summary);
  }
}
