"""Conversion of rows to Kafka records, which are written at least once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit, when

from mt_core.base.plural import plural
from mt_core.base.rowset import ROW_KIND
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.plans.operators import RowKind
from mt_core.spark.driver.jars import KAFKA


def columns_of_insert(
    topic: KafkaTopic, named: Sequence[str], produced: Sequence[str], *, by_name: bool
) -> tuple[str, ...]:
    """Return the target columns of an INSERT, in the order of its query; *named* is its column list.

    Raises Unsupported if the table cannot be written, and DefinitionInvalid for wrong columns.
    """
    if topic.not_written:
        raise Unsupported(topic.not_written)
    writable = {name.lower() for name in topic.written}
    columns = tuple(produced) if by_name else tuple(named) or topic.written
    for column in columns:
        if column.lower() not in writable:
            raise DefinitionInvalid(
                f"Table {topic.table}: INSERT cannot write column {column}; "
                f"it can write {', '.join(topic.written)}."
            )
    if len(columns) != len(produced):
        raise DefinitionInvalid(
            f"Table {topic.table}: INSERT writes the {len(columns)} {plural(len(columns), 'column')} "
            f"{', '.join(columns)}, but its query has {len(produced)}."
        )
    return columns


def write_records(rows: DataFrame, topic: KafkaTopic) -> int:
    """Write *rows*, whose columns have the names of the table's columns, and return the record count.

    A deleted row becomes a tombstone, which is a record without a value. Raises Spark's errors.
    """
    present = {name.lower() for name in rows.columns}
    missing = [lit(None).alias(name) for name in topic.written if name.lower() not in present]
    rows = rows.persist()
    try:
        count = rows.count()
        kind = [name for name in rows.columns if name == ROW_KIND]
        records = rows.select("*", *missing).selectExpr(*topic.record, *kind)
        if kind:
            records = records.withColumn("value", when(col(ROW_KIND) != RowKind.DELETE.code, col("value")))
            records = records.drop(ROW_KIND)
        records.write.format(KAFKA).options(**topic.connection).option(
            "topic", topic.topics["subscribe"]
        ).save()
        return count
    finally:
        rows.unpersist()
