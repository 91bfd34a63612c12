package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The base relations of an analysed plan, including those in views, CTEs and subqueries. */
public final class BaseRelations {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final ArrayNode facts = JSON.createArrayNode();
  private final List<Table> tables = new ArrayList<>();

  private BaseRelations() {}

  /** Returns the base relations of a plan. */
  public static BaseRelations of(LogicalPlan plan) {
    BaseRelations found = new BaseRelations();
    found.add(plan);
    CollectionConverters.asJava(plan.subqueriesAll()).forEach(found::add);
    return found;
  }

  /**
   * Returns a JSON array with one object for each relation. It has the {@code name} of the relation, if there
   * is one, and for an Iceberg table the names of its {@code columns} by attribute id.
   */
  public String facts() {
    return facts.toString();
  }

  /** Returns the tables of the relations, with null for a relation that is not an Iceberg table. */
  public List<Table> tables() {
    return tables;
  }

  /**
   * Returns the names of the identifier fields of the Iceberg table that a query returns unchanged, as a JSON
   * array.
   */
  public static String identifierFields(Dataset<?> query) throws JsonProcessingException {
    LogicalPlan plan = query.queryExecution().analyzed();
    LogicalPlan relation = plan instanceof SubqueryAlias alias ? alias.child() : plan;
    boolean isTable = relation instanceof DataSourceV2Relation found && found.table() instanceof SparkTable;
    Table table = isTable ? of(relation).tables.get(0) : null;
    return table == null ? "[]" : JSON.writeValueAsString(table.schema().identifierFieldNames());
  }

  private void add(LogicalPlan plan) {
    CollectionConverters.asJava(plan.collectLeaves()).forEach(this::leaf);
  }

  private void leaf(LogicalPlan leaf) {
    if (leaf instanceof CTERelationRef
        || leaf instanceof OneRowRelation
        || leaf instanceof LocalRelation
        || leaf instanceof Range
        || leaf instanceof UnresolvedInlineTable) {
      return;
    }
    if (leaf instanceof DataSourceV2Relation relation) {
      add(relation.catalog(), relation.identifier(), relation.table(), leaf.output());
    } else if (leaf instanceof StreamingRelationV2 relation) {
      add(relation.catalog(), relation.identifier(), relation.table(), leaf.output());
    } else if (leaf instanceof LogicalRelation relation && relation.catalogTable().isDefined()) {
      add(relation.catalogTable().get().identifier());
    } else if (leaf instanceof HiveTableRelation relation) {
      add(relation.tableMeta().identifier());
    } else {
      add(List.of());
    }
  }

  private void add(
      Option<CatalogPlugin> catalog,
      Option<Identifier> identifier,
      org.apache.spark.sql.connector.catalog.Table table,
      Seq<Attribute> output) {
    if (catalog.isEmpty() || identifier.isEmpty()) {
      add(List.of());
      return;
    }
    List<String> name = new ArrayList<>(List.of(catalog.get().name()));
    name.addAll(Arrays.asList(identifier.get().namespace()));
    name.add(identifier.get().name());
    ObjectNode relation = add(name);
    if (table instanceof SparkTable iceberg) {
      tables.set(tables.size() - 1, iceberg.table());
      ObjectNode columns = relation.putObject("columns");
      CollectionConverters.asJava(output)
          .forEach(each -> columns.put(Long.toString(each.exprId().id()), each.name()));
    }
  }

  private void add(TableIdentifier table) {
    String catalog = table.catalog().isDefined() ? table.catalog().get() : "spark_catalog";
    add(List.of(catalog, table.database().isDefined() ? table.database().get() : "default", table.table()));
  }

  private ObjectNode add(List<String> name) {
    tables.add(null);
    ObjectNode relation = facts.addObject();
    if (!name.isEmpty()) {
      name.forEach(relation.putArray("name")::add);
    }
    return relation;
  }
}
