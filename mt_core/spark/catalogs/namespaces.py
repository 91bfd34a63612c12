"""Checks that a namespace exists before a table is created in it.

Iceberg's jdbc catalog accepts tables in namespaces that do not exist.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid
from mt_core.spark.driver.file_systems import settings_of
from mt_core.spark.driver.jvm_objects import java_strings, state_of

_JDBC = "org.apache.iceberg.jdbc.JdbcCatalog"


def check_namespace(session: SparkSession, name: tuple[str, ...]) -> None:
    """Raise DefinitionInvalid if the namespace in the full name *name* of a table or view does not exist.

    Only Iceberg's jdbc catalogs are checked. Other catalogs check it themselves, or have folders as
    namespaces.
    """
    catalog, *levels, _ = name
    settings = settings_of(session, catalog)
    if not levels or (settings.get("type") != "jdbc" and settings.get("catalog-impl") != _JDBC):
        return
    plugin = state_of(session).catalogManager().catalog(catalog)
    if not plugin.namespaceExists(java_strings(session, levels)):
        namespace = display_name([catalog, *levels])
        raise DefinitionInvalid(
            f"There is no namespace {namespace}; create it first: CREATE DATABASE {namespace}."
        )
