"""Batch INSERT into a Kafka topic, which Spark SQL does not support."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.errors import Unsupported
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource
from mt_core.spark.connectors.kafka.insert import columns_of_insert, write_records
from mt_core.spark.connectors.kafka.source import TopicTable, topic_tables
from mt_core.spark.connectors.key_changes import computed_changes
from mt_core.spark.connectors.sink import stored
from mt_core.spark.driver.jvm_objects import active_session, class_name, java_dataset, scala_items, state_of
from mt_core.spark.streams.inserts import query_of, read_insert
from mt_core.spark.streams.materialization import no_value_of_key

_INSERT, _WITH = "InsertIntoStatement", "UnresolvedWith"


def insert_records(session: SparkSession, text: str, source: ConnectorSource) -> int | None:
    """Run *text* if it is an INSERT into a topic. Return the record count, or None if it is not.

    Raises DefinitionInvalid, Unsupported, and Spark's errors.
    """
    if not text.lstrip()[:6].upper().startswith(("INSERT", "WITH")):
        return None
    if not topic_tables(session) and all(table.topic is None for table in source().values()):
        return None
    with active_session(session):
        table = _target(session, text, source)
        if table is None:
            return None
        insert = read_insert(session, text)
        rows = DataFrame(java_dataset(session, query_of(session, text)), session)
        columns = columns_of_insert(table.topic, insert.columns, rows.columns, by_name=insert.by_name)
        return _written(rows.toDF(*columns), table)


def _written(rows: DataFrame, table: TopicTable) -> int:
    """Write *rows* and return the record count. If the table has a key, one record is written per key."""
    if not table.topic.keys:
        return write_records(rows, table.topic)
    present = {name.lower() for name in rows.columns}
    missing = [key for key in table.topic.keys if key.lower() not in present]
    if missing:
        raise no_value_of_key(table.name, missing)
    rows = stored(rows, sql_name(table.parts))
    with computed_changes(rows, table.topic.keys, table.name) as changes:
        return 0 if changes is None else write_records(changes.changes.frame, table.topic)


def _target(session: SparkSession, text: str, source: ConnectorSource) -> TopicTable | None:
    """Return the Kafka table into which *text* inserts, or None for other statements.

    Raises Unsupported for INSERT OVERWRITE.
    """
    plan = state_of(session).sqlParser().parsePlan(text)
    statement = plan.child() if class_name(plan) == _WITH else plan
    if class_name(statement) != _INSERT or not hasattr(statement.table(), "multipartIdentifier"):
        return None
    parts = tuple(map(str, scala_items(statement.table().multipartIdentifier())))
    table = ConnectorNames(session, source).topic(parts)
    if table is not None and statement.overwrite():
        raise Unsupported(
            f"INSERT OVERWRITE {display_name(parts)}: records of a topic cannot be replaced; use INSERT INTO."
        )
    return table
