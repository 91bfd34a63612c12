"""Creates connector tables in a new JVM, whose in-memory catalog is empty."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import namespace_of, sql_name
from mt_core.errors import MtError
from mt_core.model.connector_table import SPARK_CATALOG, STORED_IN, ConnectorTable
from mt_core.spark.connectors.connector_jars import load_kafka
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import active_session, state_of, static_member
from mt_core.spark.driver.spark_driver import SparkDriver

log = logging.getLogger(__name__)
ConnectorSource = Callable[[], Mapping[str, ConnectorTable]]
"""Returns the tables by quoted name. Thread-safe. Raises RegistryError."""


def no_connectors() -> Mapping[str, ConnectorTable]:
    """Return an empty mapping."""
    return {}


def restore_tables(driver: SparkDriver, session: SparkSession, tables: Iterable[ConnectorTable]) -> None:
    """Create *tables* in a new Spark and load the classes that they need. Failures are logged."""
    tables = tuple(tables)
    if any(table.topic is not None for table in tables):
        try:
            load_kafka(driver, session)
        except (MtError, *SPARK_ERRORS) as cause:
            text = "tables over Kafka cannot be read before the next start: %s"
            log.warning(text, translate(cause), extra={"action": "connector_jars_missing"})
    create_tables(session, tables)


def create_tables(session: SparkSession, tables: Iterable[ConnectorTable]) -> None:
    """Create *tables* over their existing files. A table that Spark refuses is logged and skipped."""
    tables = tuple(tables)
    if any(table.spark_name for table in tables):
        session.sql(f"CREATE DATABASE IF NOT EXISTS {sql_name((SPARK_CATALOG, STORED_IN))}")
    for table in tables:
        try:
            _create(session, table)
        except SPARK_ERRORS as cause:
            text = "table %s of the registry cannot be created: %s"
            log.warning(text, table.name, translate(cause), extra={"action": "connector_table_unusable"})


def _create(session: SparkSession, table: ConnectorTable) -> None:
    if table.query:
        # Other catalogs store the view themselves.
        if table.parts[0] == SPARK_CATALOG:
            session.sql(table.statement)
        return
    with active_session(session):
        state = state_of(session)
        skip = static_member(session, "org.apache.spark.sql.execution.CommandExecutionMode.SKIP")
        command = state.executePlan(state.sqlParser().parsePlan(table.statement), skip()).analyzed()
        # Do not run the command, because it refuses a folder with files and would not detect its partitions.
        state.catalog().createTable(command.table(), True, False)
        if table.has_view and table.parts[0] == SPARK_CATALOG:
            session.sql(table.create_view(replacing=True))


def stored_table(session: SparkSession, stored_name: str) -> Any:
    """Return the metadata of a table in Spark's own catalog by its quoted name, or None if it does not
    exist.

    *session* must be active.
    """
    *_, database, table = namespace_of(stored_name)
    of = static_member(session, "org.apache.spark.sql.catalyst.TableIdentifier")
    identifier = of(table, static_member(session, "scala.Option.apply")(database))
    catalog = state_of(session).catalog()
    return catalog.getTableMetadata(identifier) if catalog.tableExists(identifier) else None
