package freshtable.iceberg;

import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.sql.connector.catalog.CatalogManager;

/** Iceberg's catalogs behind those of Spark, and the names of their tables. */
public final class Catalogs {
  private static final String SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog";
  private static final String COMPARE_AND_SET = "org.apache.iceberg.jdbc.JdbcCatalog";
  private static final String SEPARATOR = "\u001f";

  private Catalogs() {}

  /** Returns Iceberg's own catalog behind one of Spark's; null unless it replaces the metadata of a table by compare-and-set. */
  public static Catalog of(CatalogManager manager, String name) {
    Object plugin = manager.isCatalogRegistered(name) ? manager.catalog(name) : null;
    if (!is(plugin, SPARK_CATALOG)) {
      return null;
    }
    Catalog catalog = ((SparkCatalog) plugin).icebergCatalog();
    return is(catalog, COMPARE_AND_SET) ? catalog : null;
  }

  /** Returns Iceberg's name of a table; its levels are separated by a character that none of them has. */
  public static TableIdentifier identifier(String levels) {
    return TableIdentifier.of(levels.split(SEPARATOR));
  }

  private static boolean is(Object object, String type) {
    return object != null && object.getClass().getName().equals(type);
  }
}
