package freshtable.operators;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.execution.datasources.jdbc.JdbcOptionsInWrite;
import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.jdbc.JdbcDialects;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;

/**
 * Writes changes to a JDBC table in a single transaction. Spark itself only inserts rows, in one transaction
 * per task.
 */
public final class JdbcChanges {
  private JdbcChanges() {}

  /**
   * Executes each statement for each row of its dataset. Either all changes are applied or none.
   *
   * <p>The columns of a dataset are the parameters of its statement, in order. The options are those of the
   * table. Rows pass through the driver one partition at a time.
   */
  public static void run(Map<String, String> options, List<String> statements, List<Dataset<Row>> rows)
      throws SQLException {
    JdbcOptionsInWrite written = new JdbcOptionsInWrite(scalaMap(options));
    JdbcDialect dialect = JdbcDialects.get(written.url());
    try (Connection connection = connection(dialect, written)) {
      connection.setAutoCommit(false);
      try {
        for (int position = 0; position < statements.size(); position++) {
          runEach(connection, statements.get(position), rows.get(position), dialect, written.batchSize());
        }
        connection.commit();
      } catch (SQLException | RuntimeException cause) {
        connection.rollback();
        throw cause;
      }
    }
  }

  private static void runEach(
      Connection connection, String text, Dataset<Row> rows, JdbcDialect dialect, int batchSize)
      throws SQLException {
    StructField[] columns = rows.schema().fields();
    int[] nullTypes = new int[columns.length];
    for (int column = 0; column < columns.length; column++) {
      nullTypes[column] = nullType(dialect, columns[column].dataType());
    }
    try (PreparedStatement statement = connection.prepareStatement(text)) {
      int waiting = 0;
      for (Iterator<Row> each = rows.toLocalIterator(); each.hasNext(); ) {
        set(statement, each.next(), nullTypes, dialect);
        statement.addBatch();
        if (++waiting == batchSize) {
          statement.executeBatch();
          waiting = 0;
        }
      }
      if (waiting > 0) {
        statement.executeBatch();
      }
    }
  }

  private static void set(PreparedStatement statement, Row row, int[] nullTypes, JdbcDialect dialect)
      throws SQLException {
    for (int column = 0; column < nullTypes.length; column++) {
      Object value = row.get(column);
      int place = column + 1;
      if (value == null) {
        statement.setNull(place, nullTypes[column]);
      } else if (value instanceof String text) {
        statement.setString(place, text);
      } else if (value instanceof BigDecimal number) {
        statement.setBigDecimal(place, number);
      } else if (value instanceof Byte || value instanceof Short) {
        statement.setInt(place, ((Number) value).intValue());
      } else if (value instanceof byte[] bytes) {
        statement.setBytes(place, bytes);
      } else if (isTime(value)) {
        setTime(statement, place, value, dialect);
      } else if (value instanceof Boolean || value instanceof Number) {
        statement.setObject(place, value);
      } else {
        throw new SQLException("A value of " + value.getClass().getName()
            + " cannot be written to a JDBC table with a key.");
      }
    }
  }

  private static boolean isTime(Object value) {
    return value instanceof java.util.Date || value instanceof java.time.temporal.Temporal;
  }

  private static void setTime(PreparedStatement statement, int place, Object value, JdbcDialect dialect)
      throws SQLException {
    if (value instanceof LocalDate day) {
      statement.setDate(place, Date.valueOf(day));
    } else if (value instanceof LocalDateTime time) {
      statement.setTimestamp(place, dialect.convertTimestampNTZToJavaTimestamp(time));
    } else if (value instanceof Instant instant) {
      statement.setTimestamp(place, Timestamp.from(instant));
    } else if (value instanceof Date day) {
      statement.setDate(place, day);
    } else if (value instanceof Timestamp time) {
      statement.setTimestamp(place, time);
    } else {
      throw new SQLException("A value of " + value.getClass().getName()
          + " cannot be written to a JDBC table with a key.");
    }
  }

  private static int nullType(JdbcDialect dialect, DataType type) {
    var known = dialect.getJDBCType(type);
    if (known.isEmpty()) {
      known = JdbcUtils.getCommonJDBCType(type);
    }
    return known.isEmpty() ? java.sql.Types.NULL : known.get().jdbcNullType();
  }

  private static Connection connection(JdbcDialect dialect, JDBCOptions options) {
    return dialect.createConnectionFactory(options).apply(-1);
  }

  private static scala.collection.immutable.Map<String, String> scalaMap(Map<String, String> values) {
    return scala.collection.immutable.Map.from(scala.jdk.javaapi.CollectionConverters.asScala(values));
  }
}
