package freshtable.iceberg;

import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Conversions between Iceberg and Spark schemas. */
public final class Schemas {
  private Schemas() {}

  /** Returns the JSON of a schema in Iceberg's form. */
  public static String json(Schema schema) {
    return SchemaParser.toJson(schema);
  }

  /** Returns the JSON of a schema as a Spark struct. */
  public static String struct(Schema schema) {
    return SparkSchemaUtil.convert(schema).json();
  }

  /**
   * Returns the Iceberg schema of a Spark struct, which is given as JSON. Its ids begin at 1, because servers
   * exist that take the id 0 in a partition spec for a missing one.
   */
  public static Schema ofStruct(String struct) {
    return TypeUtil.assignIncreasingFreshIds(SparkSchemaUtil.convert((StructType) DataType.fromJson(struct)));
  }

  /** Returns the Spark JSON of an SQL type. */
  public static String typeJson(String text) {
    return DataType.fromDDL(text).json();
  }

  /** Returns the Iceberg type of a Spark type, which is given as JSON. */
  public static Type type(String json) {
    return SparkSchemaUtil.convert(DataType.fromJson(json));
  }

  /** Returns the Spark JSON of an Iceberg type. */
  public static String stored(Type type) {
    return SparkSchemaUtil.convert(type).json();
  }

  /**
   * Returns whether Spark stores values of one type in another without a CAST. Both types are given as JSON.
   */
  public static boolean isAssignable(String from, String to) {
    DataType source = DataType.fromJson(from);
    DataType target = DataType.fromJson(to);
    return source.equals(target) || Cast.canANSIStoreAssign(source, target);
  }
}
