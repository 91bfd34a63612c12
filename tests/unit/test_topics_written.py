"""The topics that a streaming job writes: of temporary tables by its own statements, of others by the registry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.model.connector_table import ConnectorTable
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.model.stream import TableName
from mt_core.spark.streams.sinks import Sink
from mt_core.spark.streams.starts import StreamBroken
from mt_core.spark.streams.targets import SinkTarget, topic_written
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
        name="`lake`.`default`.`ships`", columns=("`id` INT",), clauses="", connector="kafka", spark_name="`s`.`c`.`x`"
    )
    return replace(table, topic=topic(), **changes)  # type: ignore[arg-type]


def written(table: TableName, *tables: ConnectorTable, connector: str = "kafka") -> KafkaTopic | None:
    target = SinkTarget(table=table, connector=connector, stored_name="`s`.`c`.`x`")
    definition = a_stream(temporary=(CREATE,), writes=(table,))
    return topic_written(definition, target, lambda: {each.name: each for each in tables})


def test_a_temporary_table_has_the_topic_of_the_statement_that_creates_it() -> None:
    assert written(("ships",)) == topic()


def test_a_table_that_stays_has_the_topic_of_the_registry() -> None:
    assert written(STAYING, kept()) == topic()


def test_a_table_that_was_dropped_or_is_another_one_now_or_has_another_connector_has_no_topic() -> None:
    assert written(STAYING) is None
    assert written(STAYING, kept(spark_name="`s`.`c`.`y`")) is None
    assert written(STAYING, kept(), connector="print") is None


def test_a_job_ends_whose_table_over_kafka_is_gone() -> None:
    target = SinkTarget(table=STAYING, connector="kafka", stored_name="`s`.`c`.`x`")

    with pytest.raises(
        StreamBroken, match=r"Table lake\.default\.ships was dropped, or renamed\. Run the INSERT again"
    ):
        Sink(target, "j").open()
