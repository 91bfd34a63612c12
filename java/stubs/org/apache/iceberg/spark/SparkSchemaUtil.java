package org.apache.iceberg.spark;

import org.apache.iceberg.Schema;
import org.apache.iceberg.types.Type;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** What Iceberg's class has that ours are compiled against. */
public class SparkSchemaUtil {
  private SparkSchemaUtil() {}

  public static StructType convert(Schema schema) {
    throw new UnsupportedOperationException();
  }

  public static Schema convert(StructType sparkType) {
    throw new UnsupportedOperationException();
  }

  public static DataType convert(Type type) {
    throw new UnsupportedOperationException();
  }

  public static Type convert(DataType sparkType) {
    throw new UnsupportedOperationException();
  }
}
