"""The topics that a streaming job writes: of temporary tables by its own statements,
of others by the registry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from mt_core.model.connector_table import ConnectorTable
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.model.stream import TableName
from mt_core.model.stream_plan import SinkTarget
from mt_core.spark.catalogs.storage_catalogs import Catalogs
from mt_core.spark.connectors.kafka.sink import KafkaSink
from mt_core.spark.connectors.sink import SinkAttempt
from mt_core.spark.connectors.stream_errors import StreamBroken
from mt_core.spark.iceberg.catalog_probe import TableCatalogs
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse
from tests.support.registry_facts import a_stream

CREATE = (
    "CREATE TEMPORARY TABLE Ships (id INT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json', "
    "'properties.bootstrap.servers' = 'h:1')"
)
STAYING = ("lake", "default", "ships")


def topic() -> KafkaTopic:
    found = parse(CREATE)
    assert isinstance(found, CreateConnectorTable)
    assert found.kafka is not None
    return found.kafka


def kept(**changes: object) -> ConnectorTable:
    table = ConnectorTable(
        name="`lake`.`default`.`ships`",
        columns=("`id` INT",),
        clauses="",
        connector="kafka",
        spark_name="`s`.`c`.`x`",
    )
    return replace(table, topic=topic(), **changes)  # type: ignore[arg-type]


def sink(table: TableName, *tables: ConnectorTable) -> KafkaSink:
    attempt = SinkAttempt(
        job_id="j",
        number=1,
        definition=a_stream(temporary=(CREATE,), writes=(table,)),
        catalogs=cast("Catalogs", None),
        table_catalogs=cast("TableCatalogs", None),
        connectors=lambda: {each.name: each for each in tables},
    )
    return KafkaSink(SinkTarget(table=table, connector="kafka", stored_name="`s`.`c`.`x`"), attempt)


def test_a_temporary_table_has_the_topic_of_the_statement_that_creates_it() -> None:
    assert sink(("ships",)).topic() == topic()


def test_a_table_that_stays_has_the_topic_of_the_registry() -> None:
    assert sink(STAYING, kept()).topic() == topic()


def test_a_table_that_was_dropped_or_is_another_one_now_has_no_topic() -> None:
    assert sink(STAYING).topic() is None
    assert sink(STAYING, kept(spark_name="`s`.`c`.`y`")).topic() is None


def test_a_job_ends_whose_table_over_kafka_is_gone() -> None:
    with pytest.raises(
        StreamBroken, match=r"Table lake\.default\.ships was dropped, or renamed\. Run the INSERT again"
    ):
        sink(STAYING).open()
