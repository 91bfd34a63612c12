package freshtable.inline;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Spark rows that remain in the JVM between the plan that produces them and their reader or writer. */
public final class Rows implements Iterable<InternalRow> {
  private final StructType columns;
  private final List<InternalRow> rows = new ArrayList<>();
  private final UnsafeProjection unsafe;
  private long bytes;

  /** Creates an empty list of rows with the given columns. */
  public Rows(StructType columns) {
    this.columns = columns;
    this.unsafe = UnsafeProjection.create(columns);
  }

  /** Returns the rows of an Arrow stream. */
  public static Rows ofArrow(StructType columns, byte[] stream) throws IOException {
    Rows given = new Rows(columns);
    try (BufferAllocator allocator = allocator("read");
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)) {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      ColumnVector[] vectors = root.getFieldVectors()
          .stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
      ColumnarBatchRow row = new ColumnarBatchRow(vectors);
      while (reader.loadNextBatch()) {
        for (row.rowId = 0; row.rowId < root.getRowCount(); row.rowId++) {
          given.add(row);
        }
      }
    }
    return given;
  }

  /** Returns the rows of a query, which a Spark job computes. */
  public static Rows collected(Dataset<Row> query) {
    Rows given = new Rows(query.schema());
    QueryExecution execution = query.queryExecution();
    InternalRow[] rows = SQLExecution.withNewExecutionId(
        execution, Option.apply("collect"), () -> execution.executedPlan().executeCollect());
    Arrays.asList(rows).forEach(given::add);
    return given;
  }

  /** Adds a copy of a row. */
  public void add(InternalRow row) {
    UnsafeRow copy = (row instanceof UnsafeRow given ? given : unsafe.apply(row)).copy();
    rows.add(copy);
    bytes += copy.getSizeInBytes();
  }

  /** Adds rows with the same columns. */
  public void addAll(Rows others) {
    rows.addAll(others.rows);
    bytes += others.bytes;
  }

  public StructType columns() {
    return columns;
  }

  public int size() {
    return rows.size();
  }

  public long bytes() {
    return bytes;
  }

  @Override
  public Iterator<InternalRow> iterator() {
    return rows.iterator();
  }

  /** Returns the rows with only the named columns. */
  public Rows select(String[] names) {
    Rows given = new Rows(columnsOf(names));
    UnsafeProjection selected = projection(names);
    rows.forEach(row -> given.add(selected.apply(row)));
    return given;
  }

  /**
   * Returns the rows with only the named columns, each repeated {@code sign} times the number in its INT column
   * {@code count}, or null if these are more than {@code most} rows.
   */
  public Rows repeated(String[] names, String count, int sign, int most) {
    Rows given = new Rows(columnsOf(names));
    UnsafeProjection selected = projection(names);
    int position = columns.fieldIndex(count);
    for (InternalRow row : rows) {
      int copies = sign * row.getInt(position);
      if (copies > most - given.size()) {
        return null;
      }
      if (copies > 0) {
        // Nobody changes a row, so its copies are one object.
        UnsafeRow copy = selected.apply(row).copy();
        given.rows.addAll(Collections.nCopies(copies, copy));
        given.bytes += (long) copies * copy.getSizeInBytes();
      }
    }
    return given;
  }

  /** Returns whether one of the named columns has a NULL. */
  public boolean haveNull(String[] names) {
    int[] ordinals = Arrays.stream(names).mapToInt(columns::fieldIndex).toArray();
    return rows.stream().anyMatch(row -> Arrays.stream(ordinals).anyMatch(row::isNullAt));
  }

  /**
   * Returns these rows without others with the same columns, each as often as it is among the others. Rows are
   * equal if all bits of their values are.
   */
  public Rows without(Rows others) {
    Map<InternalRow, Integer> left = new HashMap<>();
    others.rows.forEach(row -> left.merge(row, 1, Integer::sum));
    return where(row -> {
      Integer copies = left.get(row);
      if (copies != null) {
        if (copies > 1) {
          left.put(row, copies - 1);
        } else {
          left.remove(row);
        }
      }
      return copies == null;
    });
  }

  /** Returns the rows that meet a condition. */
  public Rows where(Predicate<InternalRow> condition) {
    Rows given = new Rows(columns);
    for (InternalRow row : rows) {
      if (condition.test(row)) {
        given.rows.add(row);
        given.bytes += ((UnsafeRow) row).getSizeInBytes();
      }
    }
    return given;
  }

  private StructType columnsOf(String[] names) {
    return new StructType(Arrays.stream(names).map(columns::apply).toArray(StructField[]::new));
  }

  private UnsafeProjection projection(String[] names) {
    List<Expression> values = new ArrayList<>();
    for (StructField field : columnsOf(names).fields()) {
      values.add(new BoundReference(columns.fieldIndex(field.name()), field.dataType(), field.nullable()));
    }
    return UnsafeProjection.create(CollectionConverters.asScala(values).toSeq());
  }

  /** Returns the rows, for Iceberg's writers. */
  public List<InternalRow> list() {
    return Collections.unmodifiableList(rows);
  }

  /** Returns the rows as a Spark relation. */
  public LocalRelation relation() {
    List<Attribute> attributes =
        new ArrayList<>(CollectionConverters.asJava(DataTypeUtils.toAttributes(columns)));
    return new LocalRelation(
        CollectionConverters.asScala(attributes).toSeq(),
        CollectionConverters.asScala(rows).toSeq(), false, Option.empty());
  }

  /** Returns a hash that only equal rows in the same order have. */
  public String digest() throws NoSuchAlgorithmException {
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    rows.forEach(row -> digest.update(((UnsafeRow) row).getBytes()));
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Returns the rows as an Arrow stream in base 64, because py4j would decode a byte array byte by byte. */
  public String arrow() throws IOException {
    try (BufferAllocator allocator = allocator("written");
        VectorSchemaRoot root = VectorSchemaRoot.create(
            ArrowUtils.toArrowSchema(columns, "UTC", true, false), allocator)) {
      ArrowWriter arrow = ArrowWriter.create(root);
      rows.forEach(arrow::write);
      arrow.finish();
      ByteArrayOutputStream stream = new ByteArrayOutputStream();
      try (ArrowStreamWriter writer = new ArrowStreamWriter(root, null, Channels.newChannel(stream))) {
        writer.start();
        writer.writeBatch();
        writer.end();
      }
      return Base64.getEncoder().encodeToString(stream.toByteArray());
    }
  }

  private static BufferAllocator allocator(String name) {
    return ArrowUtils.rootAllocator().newChildAllocator("freshtable rows " + name, 0, Long.MAX_VALUE);
  }
}
