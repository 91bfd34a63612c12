"""Kafka tables as sources: the batch views of temporary tables, and the streams that replace them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr, when

from mt_core.base.identifiers import display_name, quote
from mt_core.base.rowset import ROW_KIND
from mt_core.model.connector_table import Watermark
from mt_core.model.kafka_topic import LAST_OF_PARTITION, LAST_RECORD, PARTITION, RECORD, SETS_ROW, KafkaTopic
from mt_core.plans.operators import RowKind
from mt_core.spark.driver.jars import KAFKA
from mt_core.sql.catalog import CreateConnectorTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """A Kafka table, with its full name, or with the one-part name of a temporary table."""

    parts: tuple[str, ...]
    topic: KafkaTopic
    watermark: Watermark | None = None

    @property
    def name(self) -> str:
        return display_name(self.parts)


UPSERT_KEYS = "freshtable.upserts"
"""The metadata key of a row kind column whose value is the list of upsert key columns."""
# Spark stores only the batch plan of a temporary view.
_tables: WeakKeyDictionary[SparkSession, dict[str, TopicTable]] = WeakKeyDictionary()


def create_topic(session: SparkSession, table: CreateConnectorTable, topic: KafkaTopic) -> None:
    """Create a temporary view that reads the records of a topic as a batch. Raises Spark's errors."""
    frame = batch_rows(session.read.format(KAFKA).options(**topic.batch).load(), topic)
    name = quote(table.name[0])
    if table.or_replace:
        frame.createOrReplaceTempView(name)
    else:
        frame.createTempView(name)
    created = TopicTable(parts=table.name, topic=topic, watermark=table.watermark)
    _tables.setdefault(session, {})[table.name[0].lower()] = created


def forget_topic(session: SparkSession, name: str) -> None:
    """Record that the temporary view *name* has been replaced."""
    _tables.get(session, {}).pop(name.lower(), None)


def topic_table(session: SparkSession, name: str) -> TopicTable | None:
    """Return the Kafka table that *session* created as *name*, or None. It may have been dropped since."""
    return _tables.get(session, {}).get(name.lower())


def topic_tables(session: SparkSession) -> tuple[TopicTable, ...]:
    """Return the Kafka tables that *session* has created, including those that were dropped since."""
    return tuple(_tables.get(session, {}).values())


@contextmanager
def streamed(session: SparkSession, tables: Iterable[TopicTable]) -> Iterator[None]:
    """Create temporary views over the streams of *tables* within the block."""
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


def stream_name(table: TopicTable) -> str:
    """Return the name of the view over the stream of *table* while a query is analysed."""
    # The hexadecimal name does not collide with users' names.
    return f"stream_of_{'_'.join(part.encode().hex() for part in table.parts)}"


def upserts(records: DataFrame, topic: KafkaTopic) -> DataFrame:
    """Return the columns of the table over upsert records.

    The operator in `upsert_sources.py` completes the changelog.
    """
    kind = when(col("value").isNull(), RowKind.DELETE.code).otherwise(RowKind.INSERT.code).cast("tinyint")
    rows = _computed(_items(records, topic, kind.alias(ROW_KIND)), topic, ROW_KIND)
    columns = [quote(name) for name in rows.columns if name != ROW_KIND]
    marked = col(ROW_KIND).alias(ROW_KIND, metadata={UPSERT_KEYS: list(topic.keys)})
    return rows.select(*columns, marked).select(*columns)


def batch_rows(records: DataFrame, topic: KafkaTopic) -> DataFrame:
    """Return the rows that a batch reads from *records*. `KafkaTopic.rows` is the same in SQL."""
    records = records.where(topic.condition)
    if topic.keys:
        keyed = _items(records.selectExpr("*", RECORD), topic, col("__record"))
        keys = list(map(quote, topic.keys))
        of_partitions = keyed.groupBy(*keys, col(PARTITION).alias("__partition")).agg(expr(LAST_OF_PARTITION))
        last = of_partitions.groupBy(*keys).agg(expr(LAST_RECORD))
        records = last.select("last.*").where(SETS_ROW)
    rows = _computed(_items(records, topic), topic)
    return rows.where("false") if topic.begins_at_its_end else rows


def _stream(session: SparkSession, table: TopicTable) -> DataFrame:
    topic = table.topic
    reader = session.readStream.format(KAFKA).options(
        **topic.connection, **topic.topics, **topic.reading, **topic.start
    )
    records = reader.load().where(topic.condition)
    rows = upserts(records, topic) if topic.keys else _computed(_items(records, topic), topic)
    mark = table.watermark
    return rows if mark is None else rows.withWatermark(mark.column, mark.delay)


def _items(records: DataFrame, topic: KafkaTopic, *more: Column) -> DataFrame:
    return records.selectExpr("*", *topic.parsed).select(*map(expr, topic.items), *more)


def _computed(rows: DataFrame, topic: KafkaTopic, *more: str) -> DataFrame:
    return rows.selectExpr(*topic.computed, *more) if topic.computed else rows
