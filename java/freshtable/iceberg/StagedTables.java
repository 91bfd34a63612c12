package freshtable.iceberg;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.SupportsPrefixOperations;
import org.apache.iceberg.spark.source.StagedSparkTable;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A catalog whose statements CREATE and REPLACE TABLE … AS leave no data files when they fail.
 *
 * <p>Where the server of a catalog chooses the folder of a table, others may have files in it, and only the
 * process that staged the table knows the folder and may use the table's FileIO. Iceberg leaves the files of
 * the tasks that had ended. Their names contain the id of the write, which is unique.
 */
public final class StagedTables implements InvocationHandler {
  private final CatalogPlugin catalog;

  private StagedTables(CatalogPlugin catalog) {
    this.catalog = catalog;
  }

  /** Returns the name of a table in the plan of a statement that creates it in an Iceberg catalog. */
  public static ResolvedIdentifier name(CatalogPlugin catalog, Identifier table) {
    Set<Class<?>> interfaces = new LinkedHashSet<>();
    for (Class<?> each = catalog.getClass(); each != null; each = each.getSuperclass()) {
      addPublic(interfaces, each);
    }
    Object staging =
        Proxy.newProxyInstance(
            catalog.getClass().getClassLoader(),
            interfaces.toArray(Class<?>[]::new),
            new StagedTables(catalog));
    return new ResolvedIdentifier(
        (CatalogPlugin) staging, table, CollectionConverters.asScala(List.<Attribute>of()).toSeq());
  }

  /** Adds the interfaces of a class, for those that are not public the ones that they extend. */
  private static void addPublic(Set<Class<?>> interfaces, Class<?> type) {
    for (Class<?> each : type.getInterfaces()) {
      if (Modifier.isPublic(each.getModifiers())) {
        interfaces.add(each);
      } else {
        addPublic(interfaces, each);
      }
    }
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (method.getName().equals("equals")) {
      return proxy == arguments[0];
    }
    try {
      Object answer = method.invoke(catalog, arguments);
      return answer instanceof StagedSparkTable ? new Staged((StagedSparkTable) answer) : answer;
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  /** A table that is being created or replaced. */
  private static final class Staged extends StagedSparkTable {
    private String writeId = "";
    private boolean mayBeCommitted;

    Staged(StagedSparkTable staged) throws ReflectiveOperationException {
      super(transactionOf(staged));
    }

    private static Transaction transactionOf(StagedSparkTable staged) throws ReflectiveOperationException {
      Field field = StagedSparkTable.class.getDeclaredField("transaction");
      field.setAccessible(true);
      return (Transaction) field.get(staged);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      writeId = info.queryId();
      return super.newWriteBuilder(info);
    }

    @Override
    public void commitStagedChanges() {
      // Even a conflict is no proof that nothing was committed: a client may have repeated its request.
      mayBeCommitted = true;
      super.commitStagedChanges();
    }

    @Override
    public void abortStagedChanges() {
      super.abortStagedChanges();
      if (!mayBeCommitted && !writeId.isEmpty()) {
        deleteWritten();
      }
    }

    private void deleteWritten() {
      Table table = table();
      FileIO io = table.io();
      if (io instanceof SupportsPrefixOperations) {
        String folder = table.properties().getOrDefault("write.data.path", table.location() + "/data");
        for (FileInfo file : ((SupportsPrefixOperations) io).listPrefix(folder + "/")) {
          if (file.location().contains(writeId)) {
            io.deleteFile(file.location());
          }
        }
      }
    }
  }
}
