"""Creation of the tables with a connector in a new JVM, whose own catalog has none."""

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
"""Returns the tables by their quoted names. Safe from any thread; raises RegistryError."""


def no_connectors() -> Mapping[str, ConnectorTable]:
    """Return no tables."""
    return {}


def restore_tables(driver: SparkDriver, session: SparkSession, tables: Iterable[ConnectorTable]) -> None:
    """Give a new Spark *tables* and the classes that they need; what it cannot have is logged."""
    tables = tuple(tables)
    if any(table.topic is not None for table in tables):
        try:
            load_kafka(driver, session)
        except (MtError, *SPARK_ERRORS) as cause:
            text = "tables over Kafka cannot be read before the next start: %s"
            log.warning(text, translate(cause), extra={"action": "connector_jars_missing"})
    create_tables(session, tables)


def create_tables(session: SparkSession, tables: Iterable[ConnectorTable]) -> None:
    """Create *tables* over the files that are there; one that Spark refuses is logged,
    and does not keep the others away.
    """
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
        # In another catalog its view is stored.
        if table.parts[0] == SPARK_CATALOG:
            session.sql(table.statement)
        return
    with active_session(session):
        state = state_of(session)
        skip = static_member(session, "org.apache.spark.sql.execution.CommandExecutionMode.SKIP")
        command = state.executePlan(state.sqlParser().parsePlan(table.statement), skip()).analyzed()
        # Not the command itself: it refuses a folder that has files, and would know no partition of one.
        state.catalog().createTable(command.table(), True, False)
        if table.has_view and table.parts[0] == SPARK_CATALOG:
            session.sql(table.create_view(replacing=True))


def stored_table(session: SparkSession, stored_name: str) -> Any:
    """Return what Spark's own catalog has of a table with that quoted name, None if there is none;
    *session* is the active one.
    """
    *_, database, table = namespace_of(stored_name)
    of = static_member(session, "org.apache.spark.sql.catalyst.TableIdentifier")
    identifier = of(table, static_member(session, "scala.Option.apply")(database))
    catalog = state_of(session).catalog()
    return catalog.getTableMetadata(identifier) if catalog.tableExists(identifier) else None
