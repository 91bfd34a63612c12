"""Creates temporary tables, views and functions in a Spark session, including unbounded tables."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote
from mt_core.errors import Unsupported
from mt_core.spark.connectors.connector_jars import load_kafka
from mt_core.spark.connectors.generated import (
    GeneratedTable,
    forget_generated,
    generated_stream,
    note_generated,
)
from mt_core.spark.connectors.kafka.source import create_topic, forget_topic
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.views import Names
from mt_core.sql.catalog import CreateConnectorTable, SparkStatement
from mt_core.sql.functions import CreateFunction
from mt_core.sql.parser import ReadStatement


def create_temporary(driver: SparkDriver, session: SparkSession, text: str) -> None:
    """Run the CREATE statement *text*, as written by a user, in *session*.

    Raises MtError and Spark's errors.
    """
    read = ReadStatement(text)
    match read.fact:
        case CreateConnectorTable(has_statement=False) as table:
            create_unbounded(driver, session, table)
        case CreateFunction(function=function):
            catalog, namespace = Names(session).current()
            placed = replace(function, catalog=catalog, namespace=namespace)
            driver.functions.register(session, driver.functions.checked(session, placed))
        case SparkStatement(spark_sql=sql):
            session.sql(sql)
        case _:
            session.sql(read.text)


def create_unbounded(driver: SparkDriver, session: SparkSession, table: CreateConnectorTable) -> None:
    """Create a temporary table over a Kafka topic or generated rows. Raises Spark's errors."""
    if table.kafka is not None:
        load_kafka(driver, session)
        create_topic(session, table, table.kafka)
        return
    [name] = table.name
    forget_topic(session, name)
    forget_generated(session, name)
    if table.unbounded is not None:
        frame = generated_stream(session, table.unbounded, table.watermark)
    elif table.bounded is not None:
        frame = session.sql(table.rows)
    else:
        raise Unsupported(f"Table {name} stores rows and cannot be created as a stream.")
    if table.or_replace:
        frame.createOrReplaceTempView(quote(name))
    else:
        frame.createTempView(quote(name))
    if table.bounded is not None:
        note_generated(session, GeneratedTable(name=name, rows=table.bounded, watermark=table.watermark))
