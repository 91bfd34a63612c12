from __future__ import annotations

import pytest

from mt_core.spark.connectors.kafka.losses import loss_of
from mt_core.spark.connectors.kafka.source import TopicTable
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse

GONE = (
    "Some data may have been lost because they are not available in Kafka any more;\ntopic was processed.\n"
    "Reason: Partition a-0 offset was changed from 3 to 1.\nThis could be either 1) a user error"
)
UNREADABLE = "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected"


@pytest.fixture
def table() -> TopicTable:
    found = parse(
        "CREATE TEMPORARY TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'h:1')"
    )
    assert isinstance(found, CreateConnectorTable)
    assert found.kafka is not None
    return TopicTable(parts=found.name, topic=found.kafka)


def test_records_that_are_gone_are_named_with_their_offsets_and_the_way_out(table: TopicTable) -> None:
    assert loss_of([table], ["a task failed", GONE]) == (
        "Records of k (topic a) that the stream has not read are gone: Partition a-0 offset "
        "was changed from 3 to 1. Run the INSERT again to begin with the existing records; "
        "'failOnDataLoss' = 'false' in WITH (…) of the table lets a job continue without them."
    )


def test_a_record_that_cannot_be_read_names_the_table_and_the_option(table: TopicTable) -> None:
    assert str(loss_of([table], [UNREADABLE])).startswith(
        "A record of k (topic a) cannot be read with the format of the table."
    )


def test_other_failures_and_other_sources_are_no_loss(table: TopicTable) -> None:
    assert loss_of([table], ["Connection refused"]) is None
    assert loss_of([], [GONE, UNREADABLE]) is None
