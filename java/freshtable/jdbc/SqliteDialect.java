package freshtable.jdbc;

import java.sql.SQLException;
import java.util.Locale;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.jdbc.JdbcDialects;

/**
 * Tells Spark whether a table is missing, which it must know before it creates one.
 *
 * <p>Spark queries a row, and derives from the SQLSTATE of the error whether the table is missing. SQLite's
 * errors do not have an SQLSTATE.
 */
public final class SqliteDialect extends JdbcDialect {
  private static final long serialVersionUID = 1L;
  private static final SqliteDialect DIALECT = new SqliteDialect();

  private SqliteDialect() {}

  /** Registers the dialect. Must be called once per JVM. */
  public static void register() {
    JdbcDialects.registerDialect(DIALECT);
  }

  @Override
  public boolean canHandle(String url) {
    return url.toLowerCase(Locale.ROOT).startsWith("jdbc:sqlite:");
  }

  @Override
  public boolean isObjectNotFoundException(SQLException error) {
    return error.getMessage() != null && error.getMessage().contains("no such table");
  }
}
