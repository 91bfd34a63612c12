package org.apache.iceberg.spark;

import org.apache.iceberg.Schema;
import org.apache.spark.sql.types.StructType;

/** What Iceberg's class has that ours are compiled against. */
public class SparkSchemaUtil {
  private SparkSchemaUtil() {}

  public static StructType convert(Schema schema) {
    throw new UnsupportedOperationException();
  }
}
