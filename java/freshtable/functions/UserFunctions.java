package freshtable.functions;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.expressions.Aggregator;
import org.apache.spark.sql.expressions.UserDefinedAggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;

/** The kinds of users' classes, and the expressions that call them. */
@SuppressWarnings("deprecation")
public final class UserFunctions {
  private static final String SCALAR_INTERFACE = "org.apache.spark.sql.api.java.UDF";
  private static final String HIVE = "org.apache.hadoop.hive.ql.";
  private static final Map<Type, DataType> TYPES = Map.ofEntries(
      Map.entry(Boolean.class, DataTypes.BooleanType),
      Map.entry(Byte.class, DataTypes.ByteType),
      Map.entry(Short.class, DataTypes.ShortType),
      Map.entry(Integer.class, DataTypes.IntegerType),
      Map.entry(Long.class, DataTypes.LongType),
      Map.entry(Float.class, DataTypes.FloatType),
      Map.entry(Double.class, DataTypes.DoubleType),
      Map.entry(String.class, DataTypes.StringType),
      Map.entry(BigDecimal.class, DataTypes.createDecimalType(38, 18)),
      Map.entry(byte[].class, DataTypes.BinaryType),
      Map.entry(java.sql.Date.class, DataTypes.DateType),
      Map.entry(java.sql.Timestamp.class, DataTypes.TimestampType));

  private UserFunctions() {}

  /**
   * Returns {@code scalar type}, {@code aggregate type}, or {@code refused} and a reason. The type is empty
   * if the class does not declare it.
   */
  public static String kindOf(String[] jars, String className) throws ReflectiveOperationException {
    Object target = UserClasses.instance(List.of(jars), className);
    if (target instanceof UserDefinedAggregateFunction) {
      return "aggregate " + ((UserDefinedAggregateFunction) target).dataType().sql();
    }
    if (target instanceof Aggregator) {
      return "aggregate " + TypedCall.returned((Aggregator<?, ?, ?>) target).sql();
    }
    for (Class<?> each = target.getClass(); each != null; each = each.getSuperclass()) {
      if (each.getName().startsWith(HIVE)) {
        return "refused a function of Hive, which Spark calls only with Hive's own catalog; "
            + "implement one of Spark's UDF0 "
            + "to UDF22 in its place.";
      }
    }
    List<ParameterizedType> interfaces = scalarInterfaces(target.getClass());
    if (interfaces.isEmpty() && arities(target.getClass()).isEmpty()) {
      return "refused no function of Spark's: it implements none of org.apache.spark.sql.api.java.UDF0 "
          + "to UDF22, and "
          + "extends neither UserDefinedAggregateFunction nor Aggregator.";
    }
    DataType returned = null;
    for (ParameterizedType each : interfaces) {
      Type[] arguments = each.getActualTypeArguments();
      returned = TYPES.get(arguments[arguments.length - 1]);
    }
    return "scalar " + (returned == null ? "" : returned.sql());
  }

  /**
   * Returns the builder of call expressions. If {@code parameters} is null, those that the class declares are
   * used.
   */
  public static Function1<Seq<Expression>, Expression> builder(
      String name, String[] jars, String className,
      DataType returned, StructType parameters, boolean deterministic)
      throws ReflectiveOperationException {
    List<String> files = List.of(jars);
    Class<?> type = UserClasses.load(files, className);
    if (UserDefinedAggregateFunction.class.isAssignableFrom(type)) {
      AggregateFunction aggregate = new AggregateFunction(files, className, deterministic);
      return new AggregateCall(name, aggregate);
    }
    if (Aggregator.class.isAssignableFrom(type)) {
      return typed(name, files, type, parameters, deterministic);
    }
    ScalarFunction scalar = new ScalarFunction(files, className);
    List<List<DataType>> signatures = new ArrayList<>();
    if (parameters != null) {
      signatures.add(Arrays.stream(parameters.fields()).map(StructField::dataType).toList());
    } else {
      for (int arity : arities(type)) {
        signatures.add(declared(type, arity));
      }
    }
    return new ScalarCall(name, scalar, returned, signatures, deterministic);
  }

  private static TypedCall typed(
      String name, List<String> jars, Class<?> type, StructType parameters, boolean deterministic) {
    TypedAggregate aggregate = new TypedAggregate(jars, type.getName());
    Class<?> buffer = TypedCall.buffer(aggregate);
    if (!jars.isEmpty() && buffer.getClassLoader() == type.getClassLoader()) {
      throw new IllegalArgumentException(
          "Function " + name + ": the buffer of " + type.getName() + " is of " + buffer
          + " of its own jar, which Spark does not find; keep numbers, text, bytes or tuples of them in the "
          + "buffer, or extend "
          + "UserDefinedAggregateFunction.");
    }
    Type declared = TypedCall.input(type);
    DataType input = declared == null ? null : TYPES.get(declared);
    if (parameters != null && parameters.size() == 1) {
      input = parameters.fields()[0].dataType();
      for (Map.Entry<Type, DataType> each : TYPES.entrySet()) {
        declared = each.getValue().equals(input) ? each.getKey() : declared;
      }
    }
    if (input == null || declared == null || !input.equals(TYPES.get(declared))
        || (parameters != null && parameters.size() != 1)) {
      throw new IllegalArgumentException("Function " + name + ": Aggregator " + type.getName() + " takes "
          + (declared == null ? "something" : declared.getTypeName())
          + ", not one number, text, date or bytes; write its one "
          + "parameter with such a type, such as "
          + name + "(x BIGINT), or extend UserDefinedAggregateFunction.");
    }
    return new TypedCall(name, aggregate, input, (Class<?>) declared, deterministic);
  }

  /**
   * Returns the builder of call expressions of a Python function. Parameters of type VOID accept any
   * argument.
   */
  public static Function1<Seq<Expression>, Expression> python(
      String name, UserDefinedPythonFunction function, StructType parameters, int least, int most) {
    return new PythonCall(name, function, parameters, least, most);
  }

  /** Returns the parameter types for an arity, with null for each type that Spark does not have. */
  private static List<DataType> declared(Class<?> type, int arity) {
    List<DataType> found = new ArrayList<>();
    for (ParameterizedType each : scalarInterfaces(type)) {
      Type[] arguments = each.getActualTypeArguments();
      if (arguments.length == arity + 1) {
        for (int index = 0; index < arity; index++) {
          found.add(TYPES.get(arguments[index]));
        }
        return found;
      }
    }
    for (int index = 0; index < arity; index++) {
      found.add(null);
    }
    return found;
  }

  private static List<ParameterizedType> scalarInterfaces(Class<?> type) {
    List<ParameterizedType> found = new ArrayList<>();
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      for (Type face : each.getGenericInterfaces()) {
        if (face.getTypeName().startsWith(SCALAR_INTERFACE) && face instanceof ParameterizedType) {
          found.add((ParameterizedType) face);
        }
      }
    }
    return found;
  }

  private static List<Integer> arities(Class<?> type) {
    List<Integer> found = new ArrayList<>();
    for (int arity = 0; arity <= 22; arity++) {
      if (ScalarCall.interfaceOf(arity).isAssignableFrom(type)) {
        found.add(arity);
      }
    }
    return found;
  }
}
