"""Records of Kafka: those that the rows of an INSERT become, which a topic gets at least once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit, when

from mt_core.base.plural import plural
from mt_core.base.rowset import ROW_KIND
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.connector_jars import KAFKA


def columns_of_insert(
    topic: KafkaTopic, named: Sequence[str], produced: Sequence[str], *, by_name: bool
) -> tuple[str, ...]:
    """Return the columns that take those of a query, in its order; *named* are those that the INSERT names.

    Raises Unsupported for a table that cannot be written, and DefinitionInvalid for columns
    that it does not take.
    """
    if topic.not_written:
        raise Unsupported(topic.not_written)
    taken = {name.lower(): name for name in topic.written}
    columns = tuple(produced) if by_name else tuple(named) or topic.written
    for column in columns:
        if column.lower() not in taken:
            raise DefinitionInvalid(
                f"Table {topic.table}: INSERT takes no column {column}; it takes {', '.join(topic.written)}."
            )
    if len(columns) != len(produced):
        raise DefinitionInvalid(
            f"Table {topic.table}: INSERT takes the {len(columns)} {plural(len(columns), 'column')} "
            f"{', '.join(columns)}, and its query gives {len(produced)}."
        )
    return columns


def write_records(rows: DataFrame, topic: KafkaTopic) -> int:
    """Write *rows*, whose columns have the names of the table's, and return how many;
    raises Spark's own errors.

    The record of a row that is deleted has no value.
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
