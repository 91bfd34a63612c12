package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.connector.catalog.ViewCatalog;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Name resolution in a session. A name is a JSON array of its parts, of which the first is a catalog. */
public final class Names {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String SESSION_CATALOG = "spark_catalog";

  private Names() {}

  /** Returns the view with this name as JSON, or null if there is none. */
  public static String view(SparkSession session, String name) throws Exception {
    String[] parts = JSON.readValue(name, String[].class);
    CatalogPlugin catalog = session.sessionState().catalogManager().catalog(parts[0]);
    if (catalog instanceof ViewCatalog views) {
      Identifier identifier = identifier(parts);
      return views.viewExists(identifier) ? facts(views.loadView(identifier), parts[0]) : null;
    }
    if (!parts[0].equals(SESSION_CATALOG) || parts.length != 3) {
      return null;
    }
    SessionCatalog tables = session.sessionState().catalog();
    TableIdentifier identifier = new TableIdentifier(parts[2], Option.apply(parts[1]));
    CatalogTable table = tables.tableExists(identifier) ? tables.getTableRawMetadata(identifier) : null;
    return table != null && table.tableType().equals(CatalogTableType.VIEW()) ? facts(table) : null;
  }

  /** Returns the temporary view with this name as JSON, or null if there is none or it has no query text. */
  public static String temporaryView(SparkSession session, String name) throws JsonProcessingException {
    Option<TemporaryViewRelation> view = session.sessionState().catalog().getRawTempView(name);
    return view.isDefined() && view.get().tableMeta().viewText().isDefined()
        ? facts(view.get().tableMeta()) : null;
  }

  /**
   * Returns, as JSON, the names of the tables and views in a namespace. If its catalog supports views,
   * temporary views are included.
   */
  public static String relations(SparkSession session, String namespace) throws Exception {
    String[] parts = JSON.readValue(namespace, String[].class);
    String[] levels = Arrays.copyOfRange(parts, 1, parts.length);
    CatalogPlugin catalog = session.sessionState().catalogManager().catalog(parts[0]);
    List<String> names = new ArrayList<>();
    for (Identifier each : CatalogV2Implicits.CatalogHelper(catalog).asTableCatalog().listTables(levels)) {
      names.add(each.name());
    }
    if (catalog instanceof ViewCatalog views) {
      for (Identifier each : views.listViews(levels)) {
        names.add(each.name());
      }
      names.addAll(CollectionConverters.asJava(session.sessionState().catalog().getTempViewNames()));
    }
    return JSON.writeValueAsString(names);
  }

  /** Returns whether a table with this name exists. */
  public static boolean tableExists(SparkSession session, String name) throws Exception {
    String[] parts = JSON.readValue(name, String[].class);
    CatalogPlugin catalog = session.sessionState().catalogManager().catalog(parts[0]);
    return CatalogV2Implicits.CatalogHelper(catalog).asTableCatalog().tableExists(identifier(parts));
  }

  /** Returns a property of a table, or null if there is no such table or property. */
  public static String property(SparkSession session, String name, String key) throws Exception {
    String[] parts = JSON.readValue(name, String[].class);
    CatalogPlugin catalog = session.sessionState().catalogManager().catalog(parts[0]);
    TableCatalog tables = CatalogV2Implicits.CatalogHelper(catalog).asTableCatalog();
    Identifier identifier = identifier(parts);
    return tables.tableExists(identifier) ? tables.loadTable(identifier).properties().get(key) : null;
  }

  /**
   * Returns the result of SHOW TABLES without the tables whose names match a pattern.
   *
   * <p>The rows of a command are in the JVM, and remain there.
   */
  public static Dataset<Row> without(Dataset<Row> listed, String pattern) {
    int name = listed.schema().fieldIndex("tableName");
    List<Row> rows = listed.collectAsList();
    List<Row> others = rows.stream().filter(row -> !row.getString(name).matches(pattern)).toList();
    return others.size() == rows.size() ? listed : listed.sparkSession().createDataFrame(others, listed.schema());
  }

  /** Returns whether a function is built-in or temporary. */
  public static boolean isBuiltIn(SparkSession session, String name) {
    SessionCatalog functions = session.sessionState().catalog();
    return functions.lookupBuiltinOrTempFunction(name).isDefined()
        || functions.lookupBuiltinOrTempTableFunction(name).isDefined();
  }

  /** Returns the description of a function in Spark's own catalog, or null if there is none. */
  public static String function(SparkSession session, String database, String name) {
    ExternalCatalog functions = session.sessionState().catalog().externalCatalog();
    return functions.functionExists(database, name) ? functions.getFunction(database, name).toString() : null;
  }

  private static Identifier identifier(String[] parts) {
    return Identifier.of(Arrays.copyOfRange(parts, 1, parts.length - 1), parts[parts.length - 1]);
  }

  private static String facts(View view, String catalog) throws JsonProcessingException {
    String current = view.currentCatalog();
    return facts(
            view.query(),
            current == null || current.isEmpty() ? catalog : current,
            Arrays.asList(view.currentNamespace()),
            view.schema())
        .toString();
  }

  private static String facts(CatalogTable view) throws JsonProcessingException {
    List<String> within = CollectionConverters.asJava(view.viewCatalogAndNamespace());
    ObjectNode facts =
        facts(
            view.viewText().get(),
            within.isEmpty() ? null : within.get(0),
            within.isEmpty() ? List.of() : within.subList(1, within.size()),
            view.schema());
    facts.set("query_columns", JSON.valueToTree(CollectionConverters.asJava(view.viewQueryColumnNames())));
    Map<String, String> settings = CollectionConverters.asJava(view.viewSQLConfigs());
    facts.set("settings", JSON.valueToTree(settings));
    return facts.toString();
  }

  private static ObjectNode facts(String text, String catalog, List<String> namespace, StructType columns)
      throws JsonProcessingException {
    ObjectNode facts = JSON.createObjectNode().put("text", text).put("catalog", catalog);
    facts.set("namespace", JSON.valueToTree(namespace));
    JsonNode schema = JSON.readTree(columns.json());
    facts.set("schema", schema);
    return facts;
  }
}
