package freshtable.files;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Rows as the bytes of a stream of Arrow's, in which they go between Python and the JVM by one call. */
public final class ArrowRows {
  private ArrowRows() {}

  /** Returns rows as text in base 64: of bytes, Python decodes each by itself. */
  static String written(StructType columns, List<InternalRow> rows) throws IOException {
    try (BufferAllocator allocator = allocator("written");
        VectorSchemaRoot root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(columns, "UTC", true, false), allocator)) {
      ArrowWriter arrow = ArrowWriter.create(root);
      rows.forEach(arrow::write);
      arrow.finish();
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (ArrowStreamWriter writer = new ArrowStreamWriter(root, null, Channels.newChannel(bytes))) {
        writer.start();
        writer.writeBatch();
        writer.end();
      }
      return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
  }

  /** Returns the rows of a stream, each an object of its own; their columns have no parts. */
  public static InternalRow[] rows(byte[] stream) throws IOException {
    List<InternalRow> rows = new ArrayList<>();
    try (BufferAllocator allocator = allocator("rows");
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)) {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      ColumnVector[] columns = root.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
      while (reader.loadNextBatch()) {
        ColumnarBatchRow row = new ColumnarBatchRow(columns);
        for (row.rowId = 0; row.rowId < root.getRowCount(); row.rowId++) {
          rows.add(row.copy());
        }
      }
    }
    return rows.toArray(InternalRow[]::new);
  }

  /** Returns the rows of a stream as a relation that has them at hand. */
  public static LocalRelation relation(StructType columns, byte[] stream) throws IOException {
    LocalRelation none = AllRows.none(columns);
    Seq<InternalRow> rows = CollectionConverters.asScala(List.of(rows(stream))).toSeq();
    return new LocalRelation(none.output(), rows, false, Option.empty());
  }

  /** Returns the values of each column of the only batch of a stream. */
  static List<WantedValues> values(byte[] stream) throws IOException {
    try (BufferAllocator allocator = allocator("values");
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)) {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      reader.loadNextBatch();
      List<WantedValues> values = new ArrayList<>();
      for (FieldVector vector : root.getFieldVectors()) {
        values.add(new WantedValues(new ArrowColumnVector(vector), root.getRowCount()));
      }
      return values;
    }
  }

  private static BufferAllocator allocator(String name) {
    return ArrowUtils.rootAllocator().newChildAllocator("freshtable " + name, 0, Long.MAX_VALUE);
  }
}
