package freshtable.iceberg;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.formats.FileWriterBuilder;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteSchemaUtil;
import org.apache.iceberg.io.FileWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.StructType;

/**
 * Writes Spark's rows to files of a table with Iceberg's writers.
 *
 * <p>A partition is given as a JSON array of its column values, which is empty for a table without
 * partitions.
 */
public final class WrittenFiles {
  private static final List<String> FORMATS = List.of("write.format.default");
  private static final List<String> DELETE_FORMATS =
      List.of("write.delete.format.default", "write.format.default");
  private static final ObjectMapper JSON = new ObjectMapper();

  private WrittenFiles() {}

  /** Returns the schema and the partition spec of a table in Iceberg's JSON. */
  public static String facts(Table table) {
    return "{\"schema\": %s, \"spec\": %s}".formatted(
        SchemaParser.toJson(table.schema()), PartitionSpecParser.toJson(table.spec()));
  }

  /** Returns whether the table's columns have the names and types of a struct, in Spark's text form. */
  public static boolean stores(Table table, String struct) {
    return SparkSchemaUtil.convert(table.schema()).catalogString().equals(struct);
  }

  /** Returns the rows of a query. If its plan contains the rows, no job is started. */
  public static List<InternalRow> collected(Dataset<?> query) {
    return Arrays.asList(query.queryExecution().executedPlan().executeCollect());
  }

  /** Returns the rows except those at the positions in a JSON array. */
  public static List<InternalRow> without(List<InternalRow> rows, String places)
      throws JsonProcessingException {
    List<InternalRow> stay = new ArrayList<>(rows);
    for (int place : JSON.readValue(places, int[].class)) {
      stay.set(place, null);
    }
    stay.removeIf(row -> row == null);
    return stay;
  }

  /** Writes rows to a data file of a partition. */
  public static DataFile data(Table table, List<InternalRow> rows, String partition) throws IOException {
    return data(table, rows, table.schema(), MetricsConfig.forTable(table), FORMATS, partition);
  }

  /** Writes an equality delete file of a partition. The columns are a JSON array. */
  public static DeleteFile equalityDeletes(
      Table table, List<InternalRow> rows, String columns, String partition)
      throws IOException {
    String[] names = JSON.readValue(columns, String[].class);
    Schema schema = table.schema().select(Arrays.asList(names));
    int[] ids = Arrays.stream(names).mapToInt(name -> table.schema().findField(name).fieldId()).toArray();
    FileFormat format = format(table, DELETE_FORMATS);
    StructLike values = values(table, partition);
    EncryptedOutputFile file = file(table, format, values);
    return written(
            with(FormatModelRegistry.<InternalRow, StructType>equalityDeleteWriteBuilder(
                format, InternalRow.class, file), table, values)
                .metricsConfig(MetricsConfig.forTable(table))
                .schema(schema)
                .engineSchema(SparkSchemaUtil.convert(schema))
                .equalityFieldIds(ids)
                .build(),
            rows)
        .deleteFiles()
        .get(0);
  }

  /**
   * Writes a position delete file for a table without partitions. {@code places} are sorted by file and
   * position.
   */
  public static DeleteFile positionDeletes(Table table, List<InternalRow> places) throws IOException {
    // A position delete file is written like a data file.
    ContentFile<?> file =
        data(table, places, DeleteSchemaUtil.pathPosSchema(),
            MetricsConfig.forPositionDelete(), DELETE_FORMATS, "[]");
    return FileMetadata.deleteFileBuilder(table.spec())
        .ofPositionDeletes()
        .withPath(file.location())
        .withFormat(file.format())
        .withFileSizeInBytes(file.fileSizeInBytes())
        .withMetrics(
            new Metrics(
                file.recordCount(),
                file.columnSizes(),
                file.valueCounts(),
                file.nullValueCounts(),
                file.nanValueCounts(),
                file.lowerBounds(),
                file.upperBounds()))
        .build();
  }

  private static DataFile data(
      Table table, List<InternalRow> rows, Schema schema,
      MetricsConfig metrics, List<String> formats, String partition)
      throws IOException {
    FileFormat format = format(table, formats);
    StructLike values = values(table, partition);
    EncryptedOutputFile file = file(table, format, values);
    DataWriter<InternalRow> writer =
        with(FormatModelRegistry.<InternalRow, StructType>dataWriteBuilder(format, InternalRow.class, file),
            table, values)
            .metricsConfig(metrics)
            .schema(schema)
            .engineSchema(SparkSchemaUtil.convert(schema))
            .build();
    return written(writer, rows).dataFiles().get(0);
  }

  private static <W extends FileWriter<?, ?>> FileWriterBuilder<W, StructType> with(
      FileWriterBuilder<W, StructType> builder, Table table, StructLike partition) {
    builder.setAll(table.properties()).spec(table.spec());
    return partition == null ? builder : builder.partition(partition);
  }

  private static <R> R written(FileWriter<InternalRow, R> writer, List<InternalRow> rows) throws IOException {
    try (writer) {
      writer.write(rows);
    }
    return writer.result();
  }

  private static FileFormat format(Table table, List<String> properties) {
    Map<String, String> given = table.properties();
    return FileFormat.fromString(properties.stream()
        .filter(given::containsKey).map(given::get).findFirst().orElse("parquet"));
  }

  private static EncryptedOutputFile file(Table table, FileFormat format, StructLike partition) {
    return OutputFileFactory.builderFor(table, 0, 0)
        .operationId(UUID.randomUUID().toString())
        .format(format)
        .build()
        .newOutputFile(table.spec(), partition);
  }

  /**
   * Returns the partition values in Iceberg's form, taken from a file in the partition, or null for a table
   * without partitions.
   */
  private static StructLike values(Table table, String partition) throws JsonProcessingException {
    String[] values = JSON.readValue(partition, String[].class);
    return values.length == 0
        ? null
        : DataFiles.builder(table.spec())
            .withPath("/")
            .withFormat(FileFormat.PARQUET)
            .withFileSizeInBytes(0)
            .withRecordCount(0)
            .withPartitionValues(Arrays.asList(values))
            .build()
            .partition();
  }
}
