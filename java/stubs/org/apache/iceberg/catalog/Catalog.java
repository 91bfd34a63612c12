package org.apache.iceberg.catalog;

import java.util.List;

/** What Iceberg's interface has that ours are compiled against. */
public interface Catalog {
  List<TableIdentifier> listTables(Namespace namespace);
}
