package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import freshtable.inline.SourceRows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Scan;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.spark.ScanTaskSetManager;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.SparkTableCache;
import org.apache.iceberg.spark.source.SparkRewriteTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/** Scan tasks. Each task reads a data file with its delete files. */
public final class ScanTasks {
  private static final ObjectMapper JSON = new ObjectMapper();

  private ScanTasks() {}

  /** Returns the tasks of a scan. */
  public static List<FileScanTask> planned(Scan<?, FileScanTask, ?> scan) throws IOException {
    List<FileScanTask> tasks = new ArrayList<>();
    try (CloseableIterable<FileScanTask> files = scan.planFiles()) {
      files.forEach(tasks::add);
    }
    return tasks;
  }

  /**
   * Returns the tasks that read the files of a table at a snapshot that may have rows within the bounds.
   *
   * <p>The bounds are a JSON array. Each bound has a column name, its Iceberg type, and its lowest and
   * highest value. NULL is also within the bound. A bound is ignored if the table's column has another type.
   */
  public static List<FileScanTask> within(Table table, long snapshot, String bounds) throws IOException {
    TableScan scan = Manifests.scan(table, snapshot).caseSensitive(false);
    for (JsonNode bound : JSON.readTree(bounds)) {
      String column = bound.get("column").asText();
      String type = table.schema().caseInsensitiveFindField(column).type().toString().replace(" ", "");
      if (type.equals(bound.get("type").asText())) {
        scan = scan.filter(within(column, value(bound.get("low")), value(bound.get("high"))));
      }
    }
    return planned(scan);
  }

  private static Expression within(String column, Object low, Object high) {
    Expression between = Expressions.and(Expressions.greaterThanOrEqual(column, low),
        Expressions.lessThanOrEqual(column, high));
    return Expressions.or(Expressions.isNull(column), between);
  }

  private static Object value(JsonNode end) {
    return end.isNumber() ? (Object) end.asLong() : end.asText();
  }

  /** Returns the number of files, bytes and rows of the tasks as a JSON array. */
  public static String extent(List<FileScanTask> tasks) throws JsonProcessingException {
    return JSON.writeValueAsString(
        new long[] {
          tasks.size(),
          tasks.stream().mapToLong(FileScanTask::sizeBytes).sum(),
          tasks.stream().mapToLong(task -> task.file().recordCount()).sum()
        });
  }

  /**
   * Returns the rows that tasks (at least one) read from a table, with the given columns, which may be
   * metadata columns, or with all columns if {@code columns} is null.
   */
  public static SourceRows rows(
      SparkSession session, Table table, List<FileScanTask> tasks, StructType columns) {
    String name = staged(table, tasks);
    try {
      // Without explicit columns, readers of a table with row lineage would also return its lineage columns.
      StructType read = columns == null ? SparkSchemaUtil.convert(table.schema()) : columns;
      return SourceRows.of(session, new SparkRewriteTable(table, name), read);
    } finally {
      ScanTaskSetManager.get().removeTasks(table, name);
    }
  }

  /** Returns a name under which Spark loads the rows of the tasks, until {@code unstage} is called. */
  public static String stage(Table table, List<FileScanTask> tasks) {
    String name = staged(table, tasks);
    SparkTableCache.get().add(name, table);
    return name;
  }

  /** Releases the name that {@code stage} returned. */
  public static void unstage(Table table, String name) {
    SparkTableCache.get().remove(name);
    ScanTaskSetManager.get().removeTasks(table, name);
  }

  private static String staged(Table table, List<FileScanTask> tasks) {
    String name = UUID.randomUUID().toString();
    ScanTaskSetManager.get().stageTasks(table, name, tasks);
    return name;
  }
}
