package freshtable.jdbc;

import java.sql.SQLException;
import java.util.Locale;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.jdbc.JdbcDialects;

/**
 * Lets Spark know that a table is not there, which it has to before it creates one.
 *
 * <p>It asks for a row, and reads from the SQLSTATE of the error whether there is no table;
 * SQLite's errors have none.
 */
public final class SqliteDialect extends JdbcDialect {
  private static final long serialVersionUID = 1L;
  private static final SqliteDialect DIALECT = new SqliteDialect();

  private SqliteDialect() {}

  /** Registers it, once in a JVM. */
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
