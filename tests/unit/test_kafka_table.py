from __future__ import annotations

import pytest

from mt_core.base.secrets import is_secret, without_passwords
from mt_core.errors import DefinitionInvalid, MtError, SqlSyntaxError, Unsupported
from mt_core.model.connector_table import Watermark
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse

ADDRESS = {"connector": "kafka", "topic": "ships", "properties.bootstrap.servers": "h:9092", "format": "json"}


def statement(columns: str = "id BIGINT", **options: str | None) -> str:
    """Return a CREATE; of the names of *options* `__` stands for a dot and `_` for a hyphen,
    and None leaves one out.
    """
    changed = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    texts = {key: value for key, value in {**ADDRESS, **changed}.items() if value is not None}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in texts.items())
    return f"CREATE TEMPORARY TABLE k ({columns}) WITH ({pairs})"


def table(columns: str = "id BIGINT", **options: str | None) -> CreateConnectorTable:
    found = parse(statement(columns, **options))
    assert isinstance(found, CreateConnectorTable)
    return found


def topic(columns: str = "id BIGINT", **options: str | None) -> KafkaTopic:
    found = table(columns, **options).kafka
    assert found is not None
    return found


def test_a_table_of_json_reads_its_columns_and_writes_them() -> None:
    found = table("id BIGINT, name VARCHAR(9)")

    assert found == CreateConnectorTable(
        name=("k",),
        connector="kafka",
        spark_sql="",
        is_temporary=True,
        kafka=KafkaTopic(
            table="k",
            topics={"subscribe": "ships"},
            connection={"kafka.bootstrap.servers": "h:9092"},
            start={"startingOffsets": "earliest"},
            condition="value IS NOT NULL",
            parsed=(
                "from_json(CAST(value AS STRING), '`id` BIGINT, `name` STRING', "
                "map('mode', 'FAILFAST')) AS `__value`",
            ),
            items=("`__value`.`id` AS `id`", "`__value`.`name` AS `name`"),
            written=("id", "name"),
            record=(
                "to_json(named_struct('id', CAST(`id` AS BIGINT), 'name', CAST(`name` AS VARCHAR(9))), "
                "map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS\\'Z\\'', "
                "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false')) AS value",
            ),
        ),
    )
    assert not found.has_statement


def test_keys_metadata_and_computed_columns_are_read_beside_the_value() -> None:
    found = table(
        "id BIGINT, name STRING, place BIGINT METADATA "
        "FROM 'offset' VIRTUAL, notes MAP<STRING, BYTES> METADATA FROM 'headers', "
        "twice AS id * 2, at AS to_timestamp(name), WATERMARK FOR at AS at - INTERVAL '5' SECOND",
        format=None,
        value__format="csv",
        value__csv__field_delimiter=";",
        key__format="raw",
        key__fields="name",
        value__fields_include="EXCEPT_KEY",
    )
    read = found.kafka

    assert read is not None
    assert found.watermark == Watermark(column="at", delay="5 SECOND")
    assert read.reading == {"includeHeaders": "true"}
    assert read.parsed == (
        "from_csv(CAST(value AS STRING), '`id` BIGINT', map('mode', 'FAILFAST', 'sep', ';')) AS `__value`",
    )
    assert read.items[:3] == (
        "`__value`.`id` AS `id`",
        "CAST(key AS STRING) AS `name`",
        "CAST(offset AS BIGINT) AS `place`",
    )
    assert read.computed == (
        "`id`",
        "`name`",
        "`place`",
        "`notes`",
        "(id * 2) AS `twice`",
        "(CAST((to_timestamp(name)) AS TIMESTAMP)) AS `at`",
    )
    assert read.written == ("id", "name", "notes")
    assert read.record[0] == "CAST(CAST(`name` AS STRING) AS BINARY) AS key"


def test_the_value_counts_where_it_has_a_column_of_the_key_too() -> None:
    found = topic("id BIGINT, name STRING", key__format="json", key__fields="id")

    assert found.items == ("`__value`.`id` AS `id`", "`__value`.`name` AS `name`")
    assert len(found.parsed) == 1
    assert [item.rpartition(" AS ")[2] for item in found.record] == ["key", "value"]


def test_a_prefix_of_key_fields_is_not_in_the_record() -> None:
    found = topic(
        "k_id BIGINT, id BIGINT",
        key__format="json",
        key__fields="k_id",
        key__fields_prefix="k_",
        value__fields_include="EXCEPT_KEY",
    )

    assert found.items == ("`__key`.`id` AS `k_id`", "`__value`.`id` AS `id`")
    assert found.record[0].startswith("to_json(named_struct('id', CAST(`k_id` AS BIGINT))")


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, {"startingOffsets": "earliest"}),
        ({"properties__auto__offset__reset": "latest"}, {"startingOffsets": "latest"}),
        ({"scan__startup__mode": "latest-offset"}, {"startingOffsets": "latest"}),
        (
            {"scan__startup__mode": "timestamp", "scan__startup__timestamp_millis": "7"},
            {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "latest"},
        ),
        (
            {
                "scan__startup__mode": "specific-offsets",
                "scan__startup__specific_offsets": "partition:0,offset:42;partition:1,offset:300",
            },
            {"startingOffsets": '{"ships": {"0": 42, "1": 300}}'},
        ),
    ],
)
def test_reading_begins_where_the_startup_mode_says(options: dict[str, str], start: dict[str, str]) -> None:
    assert topic(**options).start == start


def test_a_bounded_table_ends() -> None:
    ends = [
        topic(scan__bounded__mode="latest-offset").end,
        topic(scan__bounded__mode="timestamp", scan__bounded__timestamp_millis="9").end,
        topic(
            scan__bounded__mode="specific-offsets", scan__bounded__specific_offsets="partition:0,offset:5"
        ).end,
        topic(scan__bounded__mode="unbounded").end,
    ]

    assert ends == [
        {"endingOffsets": "latest"},
        {"endingTimestamp": "9"},
        {"endingOffsets": '{"ships": {"0": 5}}'},
        None,
    ]


def test_properties_go_to_the_client_and_a_group_becomes_a_prefix() -> None:
    found = topic(
        topic="a; b",
        properties__group__id="g",
        properties__security__protocol="SSL",
        maxOffsetsPerTrigger="9",
    )

    assert found.topics == {"subscribe": "a,b"}
    assert found.connection == {"kafka.bootstrap.servers": "h:9092", "kafka.security.protocol": "SSL"}
    assert found.reading == {"groupIdPrefix": "g", "maxOffsetsPerTrigger": "9"}
    assert (
        found.not_written
        == "Table k reads several topics, but INSERT writes to one; create a table with 'topic' = 'name'."
    )


def test_what_cannot_be_parsed_is_passed_over_where_the_table_says_so() -> None:
    found = topic(json__ignore_parse_errors="true")

    assert found.condition == "get_json_object(CAST(value AS STRING), '$') IS NOT NULL"
    assert "map('mode', 'PERMISSIVE')" in found.parsed[0]


def test_a_column_of_metadata_that_spark_cannot_write_keeps_the_table_from_being_written() -> None:
    found = topic("id BIGINT, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'")

    assert found.written == ()
    assert (
        "column at: Spark cannot write the metadata 'timestamp' of a record; declare the column as"
        in found.not_written
    )


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        (statement(topic=None), DefinitionInvalid, "needs one of the options 'topic' and 'topic-pattern'"),
        (
            statement(properties__bootstrap__servers=None),
            DefinitionInvalid,
            "needs the option 'properties.bootstrap.servers'",
        ),
        (statement(format=None), DefinitionInvalid, "needs the option 'format'"),
        (
            statement(format="avro"),
            Unsupported,
            "value format 'avro' is not supported; supported are json, csv, raw. Read the",
        ),
        (statement(scan_startup_mode="x"), DefinitionInvalid, "no option 'scan-startup-mode'"),
        (
            statement(scan__startup__mode="soon"),
            DefinitionInvalid,
            "'scan.startup.mode' is 'soon'; expected one of earliest",
        ),
        (
            statement(scan__startup__mode="group-offsets"),
            Unsupported,
            "because a job stores its offsets in its checkpoint and not in Kafka; "
            "use 'earliest-offset', 'latest-offset', 'timestamp', or 'specific-offsets' with the offsets of "
            "the group in 'scan.startup.specific-offsets'.",
        ),
        (
            statement(scan__startup__mode="timestamp"),
            DefinitionInvalid,
            "needs the option 'scan.startup.timestamp-millis'",
        ),
        (
            statement(scan__startup__timestamp_millis="1"),
            DefinitionInvalid,
            "requires 'scan.startup.mode' = 'timestamp'",
        ),
        (
            statement(scan__startup__mode="specific-offsets", scan__startup__specific_offsets="0:1"),
            DefinitionInvalid,
            "has '0:1'; expected partition:0,offset:42",
        ),
        (
            statement(sink__delivery_guarantee="exactly-once"),
            Unsupported,
            "Spark writes records to Kafka at least once",
        ),
        (
            statement(sink__parallelism="2"),
            Unsupported,
            "option 'sink.parallelism' is not supported; leave it out",
        ),
        (statement(properties__key__deserializer="x"), Unsupported, "because Spark sets it itself"),
        (
            statement(key__format="json"),
            DefinitionInvalid,
            "'key.format' and 'key.fields' require each other",
        ),
        (
            statement(key__format="json", key__fields="x"),
            DefinitionInvalid,
            "names x, which is not a column of the table",
        ),
        (
            statement("id BIGINT, v STRING", format="raw"),
            Unsupported,
            "format 'raw' of the value needs one column",
        ),
        (
            statement(json__zone="x"),
            DefinitionInvalid,
            "format 'json' has no option 'json.zone'; its options are: ignore-parse-",
        ),
        (
            statement(json__ignore_parse_errors="maybe"),
            DefinitionInvalid,
            "'json.ignore-parse-errors' cannot be 'maybe'",
        ),
        (statement("id BIGINT METADATA FROM 'x'"), DefinitionInvalid, "needs columns"),
        (
            statement("id BIGINT, l INT METADATA FROM 'leader-epoch'"),
            Unsupported,
            "no metadata 'leader-epoch'; supported are topic",
        ),
        (statement("id AS"), SqlSyntaxError, "expected an expression"),
        (
            statement().replace("TEMPORARY ", "TEMPORARY ").replace("k (", "d.k ("),
            Unsupported,
            "a name with a database cannot be combined",
        ),
    ],
)
def test_what_a_table_cannot_have_is_refused_by_name(sql: str, error: type[MtError], message: str) -> None:
    with pytest.raises(error, match=message):
        parse(sql)


def test_a_table_that_stays_has_its_columns_as_they_are_written_and_a_query_over_its_records() -> None:
    columns = (
        "id INT NOT NULL, day AS CAST(at AS DATE), at TIMESTAMP(3) METADATA "
        "FROM 'timestamp' VIRTUAL COMMENT 'when', now AS PROCTIME()"
    )
    found = parse(
        statement(columns, scan__startup__mode="latest-offset").replace(
            "TEMPORARY TABLE k", "TABLE IF NOT EXISTS d.k"
        )
    )

    assert isinstance(found, CreateConnectorTable)
    assert (found.is_temporary, found.if_not_exists, found.name) == (False, True, ("d", "k"))
    assert found.column_list == (
        "`id` INT NOT NULL",
        "`day` AS CAST(at AS DATE)",
        "`at` TIMESTAMP_NTZ METADATA FROM 'timestamp' VIRTUAL COMMENT 'when'",
        "`now` AS PROCTIME()",
    )
    assert found.options == {**ADDRESS, "scan.startup.mode": "latest-offset"}
    assert found.kafka is not None
    assert found.kafka.rows("`r`") == (
        "SELECT * FROM (SELECT `id`, (CAST(at AS DATE)) AS `day`, `at`, (current_timestamp()) AS `now` "
        "FROM (SELECT `__value`.`id` AS `id`, CAST(timestamp AS TIMESTAMP_NTZ) AS `at` "
        "FROM (SELECT *, from_json(CAST(value AS STRING), '`id` INT', map('mode', 'FAILFAST')) AS `__value` "
        "FROM `r` WHERE value IS NOT NULL))) WHERE false"
    )


def test_the_records_of_a_table_that_stays_have_the_columns_and_options_of_sparks_reader() -> None:
    record = (
        "`key` BINARY, `value` BINARY, `topic` STRING, `partition` INT, `offset` BIGINT, "
        "`timestamp` TIMESTAMP, `timestampType` INT"
    )
    plain = topic(scan__bounded__mode="latest-offset", properties__group__id="g")
    with_headers = topic("id INT, h MAP<STRING, BYTES> METADATA FROM 'headers'")

    assert plain.records("`r`") == (
        f"CREATE TABLE `r` ({record}) "
        "USING kafka OPTIONS ('kafka.bootstrap.servers' = 'h:9092', 'subscribe' = 'ships', "
        "'groupIdPrefix' = 'g', 'startingOffsets' = 'earliest', 'endingOffsets' = 'latest')"
    )
    assert f"({record}, `headers` ARRAY<STRUCT<key: STRING, value: BINARY>>)" in with_headers.records("`r`")


def test_a_table_that_has_another_name_is_named_so_in_errors() -> None:
    several = topic(topic="a;b")

    renamed = several.of_table("lake.d.t")

    assert renamed.table == "lake.d.t"
    assert renamed.not_written.startswith("Table lake.d.t reads several topics")


def test_secrets_of_kafkas_clients_are_not_shown() -> None:
    keys = ("properties.sasl.jaas.config", "properties.ssl.keystore.password", "properties.ssl.keystore.key")
    text = "properties.sasl.jaas.config=\"org.apache.PlainLoginModule required password='hush';\""

    assert [key for key in keys if not is_secret(key)] == []
    assert "hush" not in without_passwords(text)
    assert "hush" not in repr(topic(properties__sasl__jaas__config="password=hush"))
