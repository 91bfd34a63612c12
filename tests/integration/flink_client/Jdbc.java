import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;

/**
 * A program that uses Flink's JDBC driver, with a command a line on its standard input, the first
 * of which is `connect URL`. What a command gives is written as lines of values between tabs, and
 * ended by a line with a dot.
 */
public final class Jdbc {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static Connection connection;

    public static void main(String[] arguments) throws Exception {
        var commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (var line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                perform(line);
            } catch (SQLException | RuntimeException error) {
                failed(error);
            }
            OUT.println(".");
        }
        disconnect();
        // The driver's threads go on after a connection that failed.
        System.exit(0);
    }

    private static void perform(String line) throws SQLException {
        var end = line.indexOf(' ');
        var word = end < 0 ? line : line.substring(0, end);
        var rest = end < 0 ? "" : line.substring(end + 1);
        switch (word) {
            case "connect" -> {
                disconnect();
                connection = DriverManager.getConnection(rest);
            }
            case "execute" -> execute(rest);
            case "query" -> {
                try (Statement statement = connection.createStatement();
                    ResultSet found = statement.executeQuery(rest)) {
                    show(found);
                }
            }
            case "product" -> {
                var told = connection.getMetaData();
                line(told.getDatabaseProductName(), told.getDatabaseProductVersion(), told.getDriverName());
            }
            case "where" -> line(connection.getCatalog(), connection.getSchema());
            case "set-catalog" -> connection.setCatalog(rest);
            case "set-schema" -> connection.setSchema(rest);
            case "catalogs" -> show(connection.getMetaData().getCatalogs());
            case "schemas" -> show(connection.getMetaData().getSchemas());
            case "tables" -> show(connection.getMetaData().getTables(null, null, "%", null));
            case "columns" -> show(connection.getMetaData().getColumns(null, null, rest, "%"));
            case "client-info" -> line(connection.getClientInfo(rest));
            case "set-client-info" -> connection.setClientInfo(rest.split("=")[0], rest.split("=")[1]);
            case "valid" -> line(connection.isValid(5), connection.isClosed());
            case "close" -> {
                connection.close();
                line(connection.isClosed());
            }
            default -> throw new IllegalArgumentException("no such command: " + word);
        }
    }

    private static void disconnect() throws SQLException {
        if (connection != null) {
            connection.close();
            connection = null;
        }
    }

    private static void execute(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            if (statement.execute(sql)) {
                show(statement.getResultSet());
            } else {
                line("updated", statement.getUpdateCount());
            }
        }
    }

    private static void show(ResultSet found) throws SQLException {
        ResultSetMetaData told = found.getMetaData();
        var names = new Object[told.getColumnCount()];
        var types = new Object[names.length];
        for (var column = 1; column <= names.length; column++) {
            names[column - 1] = told.getColumnName(column);
            types[column - 1] = told.getColumnTypeName(column);
        }
        line(names);
        line(types);
        while (found.next()) {
            var values = new Object[names.length];
            for (var column = 1; column <= values.length; column++) {
                values[column - 1] = value(found, column);
            }
            line(values);
        }
        found.close();
    }

    private static String value(ResultSet found, int column) {
        try {
            var value = found.getObject(column);
            return value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
        } catch (SQLException | RuntimeException error) {
            return error.getClass().getSimpleName();
        }
    }

    private static void line(Object... values) {
        OUT.println(String.join("\t", Arrays.stream(values).map(String::valueOf).toList()));
    }

    private static void failed(Exception error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        line("error", error.getClass().getName(), cause.getMessage());
    }
}
