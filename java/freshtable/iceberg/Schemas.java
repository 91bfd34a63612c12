package freshtable.iceberg;

import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.types.Type;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Columns in the words of Iceberg and of Spark. */
public final class Schemas {
  private Schemas() {}

  /** Returns a schema as Iceberg writes it in JSON. */
  public static String json(Schema schema) {
    return SchemaParser.toJson(schema);
  }

  /** Returns the columns of a schema as Spark's JSON of a struct. */
  public static String struct(Schema schema) {
    return SparkSchemaUtil.convert(schema).json();
  }

  /** Returns the schema of Spark's columns, which are the JSON of a struct. */
  public static Schema ofStruct(String struct) {
    return SparkSchemaUtil.convert((StructType) DataType.fromJson(struct));
  }

  /** Returns Spark's JSON of a type in SQL. */
  public static String typeJson(String text) {
    return DataType.fromDDL(text).json();
  }

  /** Returns Iceberg's type for one of Spark's, which is JSON. */
  public static Type type(String json) {
    return SparkSchemaUtil.convert(DataType.fromJson(json));
  }

  /** Returns Spark's type for one of Iceberg's, as JSON. */
  public static String stored(Type type) {
    return SparkSchemaUtil.convert(type).json();
  }

  /** Returns whether Spark stores values of one type, which is JSON, as another one without a CAST. */
  public static boolean isAssignable(String from, String to) {
    DataType source = DataType.fromJson(from);
    DataType target = DataType.fromJson(to);
    return source.equals(target) || Cast.canANSIStoreAssign(source, target);
  }
}
