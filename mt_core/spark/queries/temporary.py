"""Temporary tables and views of one Spark session, also those whose rows are without end."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import Unsupported
from mt_core.identifiers import quote
from mt_core.model.connector_table import GeneratedRows, Watermark
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.kafka.connector_jars import load_kafka
from mt_core.spark.kafka.topics import create_topic, forget_topic
from mt_core.sql.catalog import CreateConnectorTable, SparkStatement
from mt_core.sql.parser import ReadStatement

_RATE = "rate"


def create_temporary(driver: SparkDriver, session: SparkSession, text: str) -> None:
    """Create what *text*, a statement as its user wrote it, creates in *session*; raises Spark's own errors, and MtError."""
    read = ReadStatement(text)
    match read.fact:
        case CreateConnectorTable(has_statement=False) as table:
            create_unbounded(driver, session, table)
        case SparkStatement(spark_sql=sql):
            session.sql(sql)
        case _:
            session.sql(read.text)


def create_unbounded(driver: SparkDriver, session: SparkSession, table: CreateConnectorTable) -> None:
    """Create a temporary view that a stream reads, over Kafka or with rows that come at their pace; raises Spark's own errors."""
    if table.kafka is not None:
        load_kafka(driver, session)
        create_topic(session, table, table.kafka)
        return
    forget_topic(session, table.name[0])
    if table.unbounded is None:
        raise Unsupported(f"Table {'.'.join(table.name)} has rows of its own.")
    frame = rows_without_end(session, table.unbounded, table.watermark)
    if table.or_replace:
        frame.createOrReplaceTempView(quote(table.name[0]))
    else:
        frame.createTempView(quote(table.name[0]))


def rows_without_end(session: SparkSession, rows: GeneratedRows, watermark: Watermark | None) -> DataFrame:
    """Return generated rows as a stream."""
    pace: Any = session.readStream.format(_RATE).option("rowsPerSecond", rows.rows_per_second)
    frame: DataFrame = pace.load().selectExpr(*rows.items)
    return frame if watermark is None else frame.withWatermark(watermark.column, watermark.delay)
