"""Temporary tables over topics of Kafka: what a session reads as a batch, and the streams that take its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from mt_core.identifiers import quote
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.spark.kafka.connector_jars import KAFKA
from mt_core.sql.catalog import CreateConnectorTable

# Spark keeps of a temporary view what it reads as a batch alone. Its session is the only one that can name it.
_tables: WeakKeyDictionary[SparkSession, dict[str, CreateConnectorTable]] = WeakKeyDictionary()
_EARLIEST = {"startingOffsets": "earliest"}


def create_topic(session: SparkSession, table: CreateConnectorTable, topic: KafkaTopic) -> None:
    """Create a temporary view over the records that a topic has when it is read; raises Spark's own errors."""
    frame, name = _batch(session, topic), quote(table.name[0])
    if table.or_replace:
        frame.createOrReplaceTempView(name)
    else:
        frame.createTempView(name)
    _tables.setdefault(session, {})[table.name[0].lower()] = table


def forget_topic(session: SparkSession, name: str) -> None:
    """Note that the temporary view *name* is something else now."""
    _tables.get(session, {}).pop(name.lower(), None)


def topic_table(session: SparkSession, name: str) -> CreateConnectorTable | None:
    """Return the table over a topic that *session* has created as *name*, which may have been dropped since."""
    return _tables.get(session, {}).get(name.lower())


def has_topics(session: SparkSession) -> bool:
    """Return whether *session* has created any such table."""
    return bool(_tables.get(session))


@contextmanager
def streamed(session: SparkSession, tables: Iterable[CreateConnectorTable]) -> Iterator[None]:
    """Give *session* temporary views over the streams of *tables* for as long as the block analyses a query."""
    names = []
    try:
        for table in tables:
            name = stream_name(table)
            _stream(session, table).createOrReplaceTempView(name)
            names.append(name)
        yield
    finally:
        for name in names:
            session.catalog.dropTempView(name)


def stream_name(table: CreateConnectorTable) -> str:
    """Return the name that the stream of *table* has while a query is analysed."""
    # No name that a user gives has that many digits.
    return f"stream_of_{table.name[0].lower().encode().hex()}"


def _batch(session: SparkSession, topic: KafkaTopic) -> DataFrame:
    # Spark refuses to begin a batch at the end, where there is nothing.
    start = _EARLIEST if topic.begins_at_its_end else topic.start
    reader = session.read.format(KAFKA).options(**topic.connection, **topic.topics, **topic.reading, **start)
    rows = _rows(reader.options(**(topic.end or {})).load(), topic)
    return rows.where("false") if topic.begins_at_its_end else rows


def _stream(session: SparkSession, table: CreateConnectorTable) -> DataFrame:
    topic = table.kafka
    assert topic is not None, "a table over a topic has one"
    reader = session.readStream.format(KAFKA).options(
        **topic.connection, **topic.topics, **topic.reading, **topic.start
    )
    rows = _rows(reader.load(), topic)
    mark = table.watermark
    return rows if mark is None else rows.withWatermark(mark.column, mark.delay)


def _rows(records: DataFrame, topic: KafkaTopic) -> DataFrame:
    rows = records.where(topic.condition).selectExpr("*", *topic.parsed).selectExpr(*topic.items)
    return rows.selectExpr(*topic.computed) if topic.computed else rows
