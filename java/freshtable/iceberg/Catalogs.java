package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogNotFoundException;

/** The Iceberg catalogs behind Spark catalogs, and the identifiers of tables. */
public final class Catalogs {
  private static final String SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog";
  private static final Set<String> ACCEPTED =
      Set.of("org.apache.iceberg.jdbc.JdbcCatalog", "org.apache.iceberg.rest.RESTCatalog");
  private static final ObjectMapper JSON = new ObjectMapper();

  private Catalogs() {}

  /**
   * Returns the Iceberg catalog behind a Spark catalog, or null if it is of a class whose commits are not
   * known to compare branches.
   */
  public static Catalog of(CatalogManager manager, String name) {
    Object plugin;
    try {
      plugin = manager.catalog(name);
    } catch (Exception error) {
      if (error instanceof CatalogNotFoundException) {
        return null;
      }
      throw error;
    }
    if (!plugin.getClass().getName().equals(SPARK_CATALOG)) {
      return null;
    }
    Catalog catalog = ((SparkCatalog) plugin).icebergCatalog();
    return ACCEPTED.contains(catalog.getClass().getName()) ? catalog : null;
  }

  /**
   * Returns, as JSON, the names of the tables of a namespace that begin with {@code prefix}; none if there is
   * no such namespace. {@code levels} is a JSON array.
   */
  public static String tables(Catalog catalog, String levels, String prefix) throws JsonProcessingException {
    List<String> names = new ArrayList<>();
    try {
      for (TableIdentifier each : catalog.listTables(Namespace.of(JSON.readValue(levels, String[].class)))) {
        if (each.name().startsWith(prefix)) {
          names.add(each.name());
        }
      }
    } catch (NoSuchNamespaceException error) {
      return "[]";
    }
    return JSON.writeValueAsString(names);
  }

  /** Returns the Iceberg identifier of a table. {@code levels} is a JSON array. */
  public static TableIdentifier identifier(String levels) throws JsonProcessingException {
    return TableIdentifier.of(JSON.readValue(levels, String[].class));
  }
}
