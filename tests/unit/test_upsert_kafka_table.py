"""Tables over a topic of Kafka whose records set and delete rows: what Spark reads and writes,
and what is refused.
"""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, MtError, Unsupported
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.registry.rows import fact_of, row_of
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse

OPTIONS = {
    "connector": "upsert-kafka",
    "topic": "totals",
    "properties.bootstrap.servers": "h:9092",
    "key.format": "json",
    "value.format": "json",
}
COLUMNS = "city STRING, n BIGINT, PRIMARY KEY (city) NOT ENFORCED"


def statement(columns: str = COLUMNS, **options: str | None) -> str:
    """Return a CREATE; of the names of *options* `__` stands for a dot and `_` for a hyphen,
    and None leaves one out.
    """
    changed = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    texts = {key: value for key, value in {**OPTIONS, **changed}.items() if value is not None}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in texts.items())
    return f"CREATE TABLE d.totals ({columns}) WITH ({pairs})"


def topic(columns: str = COLUMNS, **options: str | None) -> KafkaTopic:
    found = parse(statement(columns, **options))
    assert isinstance(found, CreateConnectorTable)
    assert found.kafka is not None
    return found.kafka


def test_a_table_of_upserts_has_a_key_that_is_not_null_and_stays_as_it_is_written() -> None:
    found = parse(statement())

    assert isinstance(found, CreateConnectorTable)
    assert (found.connector, found.all_keys) == ("upsert-kafka", ("city",))
    assert found.column_list == ("`city` STRING NOT NULL", "`n` BIGINT")
    assert found.options == OPTIONS


def test_the_columns_of_the_key_are_read_from_the_key_since_a_record_that_deletes_has_no_value() -> None:
    found = topic()

    assert found.keys == ("city",)
    assert found.condition == "key IS NOT NULL AND (value IS NULL OR value IS NOT NULL)"
    assert found.items == ("`__key`.`city` AS `city`", "`__value`.`n` AS `n`")
    assert found.start == {"startingOffsets": "earliest"}
    assert [item.rpartition(" AS ")[2] for item in found.record] == ["value", "key"]


def test_a_batch_reads_the_last_record_of_each_key_that_has_a_value() -> None:
    found = topic(
        "k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED",
        key__format="raw",
        value__format="raw",
        value__fields_include="EXCEPT_KEY",
    )

    assert found.rows("`r`") == (
        "SELECT CAST(key AS STRING) AS `k`, CAST(value AS STRING) AS `v` FROM (SELECT * FROM (SELECT last.* "
        "FROM (SELECT max_by(__last, struct(__last.timestamp, __last.partition)) AS last "
        "FROM (SELECT `k`, max_by(__record, __record.offset) AS __last FROM (SELECT __record, "
        "CAST(key AS STRING) AS `k`, CAST(value AS STRING) AS `v` FROM (SELECT *, struct(*) AS __record "
        "FROM `r` WHERE key IS NOT NULL AND (value IS NULL OR value IS NOT NULL))) "
        "GROUP BY `k`, __record.partition) GROUP BY `k`)) WHERE value IS NOT NULL)"
    )


def test_the_columns_of_the_key_need_not_be_in_the_value_and_may_have_a_prefix() -> None:
    found = topic(
        "k_city STRING, city STRING, PRIMARY KEY (k_city) NOT ENFORCED",
        key__fields_prefix="k_",
        value__fields_include="EXCEPT_KEY",
        value__json__ignore_parse_errors="true",
        scan__bounded__mode="latest-offset",
    )

    assert found.items == ("`__key`.`city` AS `k_city`", "`__value`.`city` AS `city`")
    assert found.is_bounded
    assert "value IS NULL OR get_json_object(CAST(value AS STRING), '$') IS NOT NULL" in found.condition


def test_the_registry_keeps_the_key_of_a_topic() -> None:
    kept = ConnectorTable(name="`l`.`d`.`t`", columns=(), clauses="", connector="upsert-kafka", topic=topic())

    assert fact_of(ConnectorTable, row_of(kept)) == kept


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        (
            statement("city STRING, n INT"),
            DefinitionInvalid,
            r"needs a PRIMARY KEY \(…\) NOT ENFORCED, which defines the keys",
        ),
        (
            statement("PRIMARY KEY (city) NOT ENFORCED"),
            DefinitionInvalid,
            "PRIMARY KEY names city, which is not a column",
        ),
        (
            statement("n INT, city AS CAST(n AS STRING), PRIMARY KEY (city) NOT ENFORCED"),
            DefinitionInvalid,
            "PRIMARY KEY names city, which is not a column",
        ),
        (
            statement("n INT, p INT METADATA FROM 'partition' VIRTUAL, PRIMARY KEY (p) NOT ENFORCED"),
            DefinitionInvalid,
            (
                "column p of the PRIMARY KEY is a computed or metadata column, which is not part of "
                "a record's key; choose from n"
            ),
        ),
        (
            statement("m MAP<STRING, INT>, PRIMARY KEY (m) NOT ENFORCED"),
            DefinitionInvalid,
            "cannot be in a PRIMARY KEY",
        ),
        (
            statement(key__fields_prefix="k_", value__fields_include="EXCEPT_KEY"),
            DefinitionInvalid,
            "column city of the PRIMARY KEY does not begin with 'k_', the 'key.fields-prefix'; rename it",
        ),
        (
            statement("city STRING, PRIMARY KEY (city) NOT ENFORCED", value__fields_include="EXCEPT_KEY"),
            DefinitionInvalid,
            "leaves no column for the value of a record",
        ),
        (
            statement(key__format=None),
            DefinitionInvalid,
            "connector 'upsert-kafka' needs the option 'key.format'",
        ),
        (
            statement(value__format=None),
            DefinitionInvalid,
            "connector 'upsert-kafka' needs the option 'value.format'",
        ),
        (
            statement(format="json"),
            Unsupported,
            "option 'format' is not supported; write 'key.format' and 'value.format'",
        ),
        (
            statement(key__fields="city"),
            Unsupported,
            "'key.fields' is not supported; leave it out; the PRIMARY KEY names",
        ),
        (
            statement(scan__startup__mode="latest-offset"),
            Unsupported,
            "'scan.startup.mode' is not supported; leave it out",
        ),
        (
            statement(properties__auto__offset__reset="latest"),
            Unsupported,
            "the topic is read from its first record",
        ),
        (
            statement(topic="a;b"),
            Unsupported,
            "'upsert-kafka' requires exactly one topic, because records of several topics have no "
            "common order",
        ),
        (
            statement(topic=None, topic_pattern="t.*"),
            Unsupported,
            "'topic-pattern' is not supported; name one topic",
        ),
        (statement(topic=None), DefinitionInvalid, "'upsert-kafka' needs one of the options 'topic'"),
        (
            statement(sink__parallelism="2"),
            Unsupported,
            "option 'sink.parallelism' is not supported; leave it out",
        ),
        (
            statement(sink__buffer_flush__interval="1s"),
            Unsupported,
            "of the rows that a key has in a batch the last one is",
        ),
        (
            statement(sink__delivery_guarantee="exactly-once"),
            Unsupported,
            "Spark writes records to Kafka at least once",
        ),
        (
            statement(value_fields_include="ALL"),
            DefinitionInvalid,
            "has no option 'value-fields-include'; .*value.fields-include",
        ),
        (
            statement(json__ignore_parse_errors="true"),
            DefinitionInvalid,
            "has no option 'json.ignore-parse-errors'",
        ),
        (statement(value__format="avro"), Unsupported, "value format 'avro' is not supported"),
        (statement(value__format="raw"), Unsupported, "format 'raw' of the value needs one column"),
    ],
)
def test_what_a_table_of_upserts_cannot_have_is_refused_by_name(
    sql: str, error: type[MtError], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse(sql)
