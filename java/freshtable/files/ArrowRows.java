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
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;

/** Rows as the bytes of a stream of Arrow's, in which they go between Python and the JVM by one call. */
final class ArrowRows {
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
