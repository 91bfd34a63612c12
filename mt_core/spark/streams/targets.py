"""Targets of a stream that have a connector: Iceberg's publish each batch once, these take it as their connector does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.identifiers import sql_name
from mt_core.model.connector_table import table_named
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.model.stream import StreamDefinition, TableName
from mt_core.spark.catalogs.connector_tables import ConnectorSource
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import active_session, spark_identifier, state_of
from mt_core.spark.queries.connector_names import ConnectorNames
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.flink.connectors import KAFKA, SINKS
from mt_core.sql.parser import ReadStatement

JDBC = "jdbc"
FILES = ("filesystem", "parquet", "orc", "csv", "json", "text")
TAKING_TEMPORARY = (*SINKS, JDBC, KAFKA)
TAKING = (*TAKING_TEMPORARY, *FILES)
"""The connectors whose tables take the batches of a stream, and those of which also a temporary one does."""
GUARANTEES: Mapping[str, str] = {
    "": "each batch once, as one commit",
    **dict.fromkeys(FILES, "each batch once; its files appear one after the other"),
    JDBC: "at least once: a batch that fails in the middle is written again",
    KAFKA: "at least once: a batch that fails in the middle is sent again",
    "print": "at least once: a batch that fails in the middle is printed again",
    "blackhole": "nowhere: rows are counted, and dropped",
}
"""How the rows of a stream arrive, by connector; those of Iceberg's tables have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTarget:
    """A table by the name in its statement, its connector, and its quoted name in Spark."""

    table: TableName
    connector: str
    stored_name: str

    def to_json(self) -> dict[str, Any]:
        return {"table": list(self.table), "connector": self.connector, "stored_name": self.stored_name}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SinkTarget:
        return cls(table=tuple(body["table"]), connector=body["connector"], stored_name=body["stored_name"])


def targets_with_connector(
    session: SparkSession, source: ConnectorSource, temporary: Iterable[str], tables: Iterable[TableName]
) -> dict[TableName, SinkTarget]:
    """Return those of *tables* that have a connector which takes rows of streams; *temporary* creates those of one part."""
    of_session, found = temporary_connectors(temporary), dict[TableName, SinkTarget]()
    with active_session(session):
        names = ConnectorNames(session, source)
        for table in tables:
            kept = names.named(table) if len(table) > 1 else None
            if len(table) == 1:
                connector = of_session.get(table[0].lower(), "")
            else:
                connector = kept.connector if kept is not None and kept.connector else _provider(session, table)
            if connector in (TAKING if len(table) > 1 else TAKING_TEMPORARY):
                stored_name = sql_name(table) if kept is None else kept.stored_name
                found[table] = SinkTarget(table=table, connector=connector, stored_name=stored_name)
    return found


def sinks_of(definition: StreamDefinition) -> dict[TableName, SinkTarget]:
    """Return what `targets_with_connector` found when the job was created.

    Jobs of earlier releases have pinned nothing: theirs have a name of one part, or are tables of JDBC in Spark's own catalog.
    """
    if "sinks" in definition.pinned:
        return {sink.table: sink for sink in map(SinkTarget.from_json, definition.pinned["sinks"])}
    of_session = temporary_connectors(definition.temporary)
    return {
        table: SinkTarget(
            table=table,
            connector=of_session[table[0].lower()] if len(table) == 1 else JDBC,
            stored_name=sql_name(table),
        )
        for table in definition.writes
        if len(table) == 1 or table[0] == SESSION_CATALOG
    }


def temporary_connectors(temporary: Iterable[str]) -> dict[str, str]:
    """Return the connector of each table that the statements *temporary* create, by its name in lower case."""
    return {
        name: table.connector for name, table in _temporary_tables(temporary).items() if table.connector is not None
    }


def topic_written(definition: StreamDefinition, target: SinkTarget, source: ConnectorSource) -> KafkaTopic | None:
    """Return the topic of Kafka that *target* of a stream is, None for any other target and for a table that was dropped since."""
    if target.connector != KAFKA:
        return None
    if len(target.table) == 1:
        created = _temporary_tables(definition.temporary).get(target.table[0].lower())
        return None if created is None else created.kafka
    table = table_named(source(), target.table)
    return table.topic if table is not None and table.stored_name == target.stored_name else None


def _temporary_tables(temporary: Iterable[str]) -> dict[str, CreateConnectorTable]:
    facts = (ReadStatement(text).fact for text in temporary)
    return {fact.name[-1].lower(): fact for fact in facts if isinstance(fact, CreateConnectorTable)}


def _provider(session: SparkSession, table: TableName) -> str:
    """Return the data source of a table of Spark's own catalog, empty for any other."""
    if table[0] != SESSION_CATALOG or len(table) < 3:
        return ""
    plugin = state_of(session).catalogManager().catalog(SESSION_CATALOG)
    return str(plugin.loadTable(spark_identifier(session, table[1:])).properties().get("provider"))
