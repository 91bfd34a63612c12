package freshtable.iceberg;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.CommitMetadata;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark commands that write an Iceberg table that no catalog knows, such as a {@code HeldTable}. The catalog
 * of Spark that they name has the functions of Iceberg's partition transforms. The summary properties of the
 * snapshot and the write options are JSON objects.
 */
public final class Commands {
  /** The name of the table in SQL text. */
  private static final List<String> NAME = List.of("held");
  private static final ObjectMapper JSON = new ObjectMapper();

  private Commands() {}

  /** Appends rows, whose columns are matched by name. */
  public static void append(
      Dataset<?> rows, Table table, String catalog, String options, String summary)
      throws Exception {
    SparkSession session = rows.sparkSession();
    run(session,
        AppendData.byName(
            relation(session, table, catalog), rows.queryExecution().analyzed(), parsed(options)),
        summary);
  }

  /** Replaces the rows that meet a condition. */
  public static void overwrite(
      Dataset<?> rows, Table table, String catalog, Column condition, String options, String summary)
      throws Exception {
    SparkSession session = rows.sparkSession();
    run(session,
        OverwriteByExpression.byName(
            relation(session, table, catalog), rows.queryExecution().analyzed(),
            session.expression(condition), parsed(options)),
        summary);
  }

  /** Runs a MERGE into {@code held}. */
  public static void merge(
      SparkSession session, Table table, String catalog, String text, String summary)
      throws Exception {
    run(session, merge(session, table, catalog, text), summary);
  }

  /** Returns the parsed plan of a MERGE into {@code held}, which is also permitted as its source. */
  static LogicalPlan merge(SparkSession session, Table table, String catalog, String text) throws Exception {
    MergeIntoTable merge = (MergeIntoTable) session.sessionState().sqlParser().parsePlan(text);
    LogicalPlan[] plans = {merge.targetTable(), merge.sourceTable()};
    for (int side = 0; side < plans.length; side++) {
      plans[side] = named(plans[side], () -> relation(session, table, catalog));
    }
    return merge.withNewChildren(seq(plans));
  }

  /** Runs the plan of a command. */
  static void run(SparkSession session, LogicalPlan command, String summary) throws Exception {
    CommitMetadata.withCommitProperties(
        properties(summary), () -> Dataset.ofRows(session, command), Exception.class);
  }

  private static LogicalPlan named(LogicalPlan plan, Supplier<LogicalPlan> table) {
    if (plan instanceof SubqueryAlias alias) {
      return alias.withNewChildren(seq(named(alias.child(), table)));
    }
    return plan instanceof UnresolvedRelation relation
        && CollectionConverters.asJava(relation.multipartIdentifier()).equals(NAME) ? table.get() : plan;
  }

  private static DataSourceV2Relation relation(SparkSession session, Table table, String catalog) {
    return DataSourceV2Relation.create(
        new SparkTable(table), Option.apply(session.sessionState().catalogManager().catalog(catalog)),
        Option.empty(), CaseInsensitiveStringMap.empty(), Option.empty());
  }

  private static scala.collection.immutable.Seq<LogicalPlan> seq(LogicalPlan... plans) {
    return CollectionConverters.asScala(List.of(plans)).toSeq();
  }

  private static scala.collection.immutable.Map<String, String> parsed(String options) throws Exception {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(properties(options)));
  }

  private static Map<String, String> properties(String json) throws Exception {
    return JSON.readValue(json, new TypeReference<>() {});
  }
}
