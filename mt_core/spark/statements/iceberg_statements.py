"""Statements of Spark's that Iceberg's catalogs do not perform: DROP DATABASE … CASCADE, by others."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from mt_core.identifiers import sql_name
from mt_core.spark.driver.jvm_objects import java_class, java_strings, state_of

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def emptying(session: SparkSession, catalog: str, levels: tuple[str, ...]) -> Iterator[str]:
    """Yield the statements that drop what a database of an Iceberg catalog holds; none for other catalogs, which CASCADE."""
    plugin = state_of(session).catalogManager().catalog(catalog)
    if not java_class(session, _CATALOG).isInstance(plugin):
        return
    namespace = java_strings(session, levels)
    if not plugin.namespaceExists(namespace):
        return
    for child in plugin.listNamespaces(namespace):
        yield f"DROP NAMESPACE IF EXISTS {sql_name((catalog, *map(str, child)))} CASCADE"
    for noun, found in (("VIEW", plugin.listViews(namespace)), ("TABLE", plugin.listTables(namespace))):
        for each in found:
            yield f"DROP {noun} IF EXISTS {sql_name((catalog, *map(str, each.namespace()), str(each.name())))}"
