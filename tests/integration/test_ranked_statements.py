"""Statements that rank or limit the rows of a stream, on a real Spark: which operators they become,
and what these give.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, ALL
from mt_core.plans.policies import operator_policy
from mt_core.spark.connectors.changelog import ROW_KIND, Changelog
from mt_core.spark.connectors.kafka.source import batch_rows, upserts
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, scala_items
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.operators.operator_nodes import scan_of
from mt_core.spark.streams.operators.rankings import REPLACES
from mt_core.spark.streams.operators.stateless import expression_id
from mt_core.spark.streams.operators.upsert_sources import normalized
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse
from tests.integration.operator_stream import OperatorStream, changelog_of, statement

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY {}) AS rn FROM clicks)"
COLUMNS = "city STRING, n INT, at STRING"
TOP = NUMBERED.format("n DESC")
LAST = f"SELECT city, n FROM {NUMBERED.format('p DESC')} WHERE rn = 1".replace(
    "clicks", "(SELECT *, now() AS p FROM clicks)"
)


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> Iterator[SparkSession]:
    session = module_driver.new_session()
    stream = session.readStream.format("rate").load()
    stream.selectExpr(
        "CAST(value AS STRING) AS city", "CAST(value AS INT) AS n", "timestamp AS at"
    ).createTempView("clicks")
    session.sql("CREATE TEMPORARY VIEW tops AS SELECT * FROM " + TOP)
    with active_session(session):
        yield session


def operators(found: Changelog) -> list[tuple[str, list[str]]]:
    """Return the operators that keep state, inputs first, and their states."""
    return [
        (each.type, [state.name for state in each.states]) for each in found.operator.all() if each.states
    ]


def unique(found: Changelog) -> set[frozenset[str]]:
    names = {expression_id(each): str(each.name()) for each in scala_items(found.plan.output())}
    return {frozenset(names[each] for each in key) for key in found.unique}


RANK = ("stream-exec-rank_1", ["rankState"])
DEDUPLICATE = ("stream-exec-deduplicate_1", ["deduplicateState"])
LIMIT = ("stream-exec-limit_1", ["rankState"])
SORT_LIMIT = ("stream-exec-sort-limit_1", ["rankState"])
CITY, BOTH = frozenset({"city"}), frozenset({"city", "rn"})


@pytest.mark.parametrize(
    ("text", "expected", "changes", "keys"),
    [
        (f"SELECT * FROM {TOP} WHERE rn <= 3", [RANK], REPLACES, {BOTH}),
        (f"SELECT city, n FROM {TOP} WHERE rn <= 3", [RANK], REPLACES, set()),
        (f"SELECT city, n FROM {TOP} WHERE rn <= 3 AND rn + n > 5", [RANK], REPLACES, set()),
        (f"SELECT city, n FROM {TOP} WHERE rn BETWEEN 2 AND 2", [RANK], REPLACES, {CITY}),
        (f"SELECT city, n FROM {TOP} WHERE rn > 1 AND 3 > rn AND n > 0", [RANK], REPLACES, {CITY}),
        ("SELECT city FROM tops WHERE rn = 1", [RANK], REPLACES, {CITY}),
        (
            "SELECT city, rn AS r FROM (SELECT * FROM tops) AS t WHERE rn < 3",
            [RANK],
            REPLACES,
            {frozenset({"city", "r"})},
        ),
        (LAST, [DEDUPLICATE], REPLACES, {CITY}),
        (LAST.replace("DESC", ""), [DEDUPLICATE], ADDS, {CITY}),
        (LAST.replace("rn = 1", "rn <= 2"), [RANK], REPLACES, set()),
        ("SELECT city, n FROM clicks LIMIT 3", [LIMIT], ADDS, set()),
        ("SELECT city, n FROM clicks LIMIT 1 + 2 OFFSET 2", [LIMIT], ADDS, set()),
        ("SELECT city, n FROM clicks OFFSET 2", [LIMIT], ADDS, set()),
        ("SELECT city FROM clicks ORDER BY n + 1, at DESC LIMIT 3", [SORT_LIMIT], REPLACES, set()),
        (f"SELECT city FROM ({LAST}) ORDER BY n LIMIT 3", [DEDUPLICATE, SORT_LIMIT], ALL, {CITY}),
        (f"SELECT city FROM ({LAST}) LIMIT 3", [DEDUPLICATE, LIMIT], ALL, {CITY}),
        (
            f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS rn FROM ({LAST})) WHERE rn <= 9",
            [DEDUPLICATE, RANK],
            ALL,
            {CITY, frozenset({"rn"})},
        ),
    ],
)
def test_a_statement_becomes_the_operator_of_flink(
    session: SparkSession, text: str, expected: object, changes: object, keys: object
) -> None:
    found = changelog_of(session, text)

    assert operators(found) == expected
    assert found.changes == changes
    assert unique(found) == keys
    assert (found.kind is None) == (changes == ADDS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"SELECT city FROM {TOP.replace('ROW_NUMBER', 'RANK')} WHERE rn <= 3",
            r"by ROW_NUMBER\(\), not",
        ),
        (
            f"SELECT city FROM {TOP.replace('ROW_NUMBER', 'DENSE_RANK')} WHERE rn = 1",
            r"by ROW_NUMBER\(\), not",
        ),
        (
            f"SELECT n FROM {TOP.replace('BY city', 'BY city COLLATE UTF8_LCASE')} WHERE rn = 1",
            "equal under a collation",
        ),
        ("SELECT n FROM clicks ORDER BY n", "ORDER BY without LIMIT"),
        ("SELECT n FROM clicks ORDER BY n OFFSET 3", "ORDER BY with OFFSET and without LIMIT"),
        (f"SELECT n FROM ({LAST}) ORDER BY n + rand() LIMIT 3", "has another value when a row is retracted"),
    ],
)
def test_what_no_stream_can_rank_is_refused_with_the_reason(
    session: SparkSession, text: str, reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason):
        changelog_of(session, text)


@pytest.mark.slow
def test_upserts_become_changes_of_whole_rows(module_driver: SparkDriver, tmp_path: Path) -> None:
    def operator(rows: DataFrame) -> DataFrame:
        plan = rows._jdf.queryExecution().analyzed()
        upserts = Changelog(plan=plan, operator=replace(scan_of(plan), changes=ALL))
        found = normalized(rows.sparkSession, upserts, [0], operator_policy(timedelta(hours=1)))
        assert operators(found) == [("stream-exec-changelog-normalize_1", ["changelogNormalizeState"])]
        return DataFrame(java_dataset(rows.sparkSession, found.plan), rows.sparkSession)

    rows = OperatorStream(
        module_driver.new_session(), tmp_path, f"city STRING, n INT, {ROW_KIND} TINYINT", operator
    )
    oslo = {"city": "Oslo"}

    given = [
        rows.feed({**oslo, "n": 1, ROW_KIND: 0}, {**oslo, "n": 2, ROW_KIND: 2}),
        rows.feed({**oslo, "n": None, ROW_KIND: 3}, {**oslo, "n": 3, ROW_KIND: 0}),
        rows.feed({**oslo, "n": None, ROW_KIND: 3}, {"city": "Rome", "n": None, ROW_KIND: 3}),
    ]
    rows.wait(timedelta(hours=2))
    given.append(rows.feed({**oslo, "n": 3, ROW_KIND: 2}))
    rows.wait(timedelta(hours=2))
    given.append(rows.feed({**oslo, "n": 4, ROW_KIND: 2}))
    rows.stop()

    assert [[(kind, columns["n"]) for kind, columns in batch] for batch in given] == [
        [("+I", 2)],
        [("-U", 2), ("+U", 3)],
        [("-D", 3)],
        [("+I", 3)],
        # The one before has expired.
        [("+I", 4)],
    ]


@pytest.mark.slow
def test_the_records_of_a_topic_set_and_delete_the_rows_of_their_keys(
    module_driver: SparkDriver, tmp_path: Path
) -> None:
    created = parse(
        "CREATE TEMPORARY TABLE totals (city STRING, n INT, twice AS n * 2, at AS PROCTIME(), "
        "PRIMARY KEY (city) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'h:1', 'key.format' = 'raw', 'value.format' = 'json', "
        "'value.json.ignore-parse-errors' = 'true', 'value.fields-include' = 'EXCEPT_KEY')"
    )
    assert isinstance(created, CreateConnectorTable)
    topic = created.kafka
    assert topic is not None

    def operator(records: DataFrame) -> DataFrame:
        found = upserts(records.where(topic.condition), topic)
        return statement("SELECT city, twice FROM clicks AS c WHERE n > 0")(found)

    records = OperatorStream(module_driver.new_session(), tmp_path, "key BINARY, value BINARY", operator)

    given = [
        records.feed(_record("Oslo", '{"n": 1}'), _record("Oslo", '{"n": 2}'), _record("Rome", '{"n": 3}')),
        records.feed(
            _record("Oslo", '{"n": 2}'), _record("Rome", None), _record("Bern", None), _record(None, "{}")
        ),
        records.feed(_record("Oslo", "no json"), _record("Rome", '{"n": 4}')),
        records.feed(_record("Oslo", '{"n": 0}'), _record("Rome", '{"n": 5}')),
    ]
    records.stop()

    assert [
        sorted((columns["city"], kind, columns["twice"]) for kind, columns in batch) for batch in given
    ] == [
        [("Oslo", "+I", 4), ("Rome", "+I", 6)],
        [("Rome", "-D", 6)],
        [("Rome", "+I", 8)],
        [("Oslo", "-U", 4), ("Rome", "+U", 10), ("Rome", "-U", 8)],
    ]


def test_a_batch_reads_one_row_of_a_key_that_has_several_forms_in_bytes(session: SparkSession) -> None:
    created = parse(
        "CREATE TEMPORARY TABLE totals (id INT, n INT, twice AS n * 2, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', "
        "'key.format' = 'json', 'value.format' = 'json')"
    )
    assert isinstance(created, CreateConnectorTable)
    topic = created.kafka
    assert topic is not None
    # The clocks of producers order no records of a partition, and offsets none of several partitions.
    written = [
        ('{"id": 1}', 10, 0, 900, "10:00"),
        ('{"id":1}', 12, 1, 5, "10:05"),
        ('{"id":1}', 11, 1, 6, "10:04"),
        ('{"id": 2}', 20, 0, 901, "10:00"),
        ('{"id": 3}', 30, 0, 902, "10:00"),
        ('{ "id": 3 }', None, 1, 7, "10:01"),
    ]
    records = session.createDataFrame(
        [
            (key, None if n is None else f'{{"id": 0, "n": {n}}}', partition, offset, f"2026-01-01 {time}")
            for key, n, partition, offset, time in written
        ],
        "key STRING, value STRING, partition INT, offset BIGINT, timestamp STRING",
    ).selectExpr(
        "CAST(key AS BINARY)", "CAST(value AS BINARY)", "partition", "offset", "CAST(timestamp AS TIMESTAMP)"
    )
    records.createOrReplaceTempView("records")

    found = [session.sql(topic.rows("records")), batch_rows(records, topic)]

    assert [sorted(map(tuple, rows.collect())) for rows in found] == [[(1, 11, 22), (2, 20, 40)]] * 2


def _record(key: str | None, value: str | None) -> dict[str, str | None]:
    """Return a record as JSON has bytes."""
    return {
        name: None if text is None else b64encode(text.encode()).decode()
        for name, text in (("key", key), ("value", value))
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "given"),
    [
        (
            LAST,
            [
                [("+I", ["Oslo", 1]), ("+I", ["Rome", 2])],
                [("-U", ["Rome", 2]), ("+U", ["Rome", 5])],
                [("-U", ["Rome", 5]), ("+U", ["Rome", 0])],
            ],
        ),
        (
            f"SELECT city, n, rn FROM {TOP} WHERE rn <= 2",
            [
                [("+I", ["Oslo", 1, 1]), ("+I", ["Rome", 2, 1]), ("+I", ["Rome", 1, 2])],
                [
                    ("-U", ["Rome", 2, 1]),
                    ("+U", ["Rome", 5, 1]),
                    ("-U", ["Rome", 1, 2]),
                    ("+U", ["Rome", 4, 2]),
                ],
                [],
            ],
        ),
        (
            f"SELECT city, n FROM {TOP} WHERE rn BETWEEN 2 AND 3 AND n > 1",
            [[], [("+U", ["Rome", 4]), ("+I", ["Rome", 2])], []],
        ),
        (
            f"SELECT city FROM ({LAST}) ORDER BY n DESC LIMIT 1",
            [[("+I", ["Rome"])], [("-U", ["Rome"]), ("+U", ["Rome"])], [("+U", ["Oslo"]), ("-U", ["Rome"])]],
        ),
        (
            "SELECT upper(city) AS c FROM clicks LIMIT 2 OFFSET 2",
            [[("+I", ["ROME"])], [("+I", ["ROME"])], []],
        ),
    ],
)
def test_a_statement_gives_what_each_batch_changes(
    module_driver: SparkDriver, tmp_path: Path, text: str, given: list[object]
) -> None:
    rows = OperatorStream(module_driver.new_session(), tmp_path, COLUMNS, statement(text))

    found = [
        [(kind, list(columns.values())) for kind, columns in rows.feed(*batch)]
        for batch in (
            [{"city": "Rome", "n": 1}, {"city": "Oslo", "n": 1}, {"city": "Rome", "n": 2}],
            [{"city": "Rome", "n": 4}, {"city": "Rome", "n": 5}],
            [{"city": "Rome", "n": 0}],
        )
    ]
    rows.stop()

    assert [sorted(batch, key=lambda change: change[1][0]) for batch in found] == given


@pytest.mark.parametrize(
    ("text", "capped"), [("LIMIT 3", True), ("LIMIT 3 OFFSET 2", True), ("OFFSET 2", False)]
)
def test_each_task_sends_no_more_rows_to_a_limit_than_fit(
    session: SparkSession, text: str, *, capped: bool
) -> None:
    with active_session(session):
        plan = changelog_of(session, f"SELECT city, n FROM clicks {text}").plan.toString()

    assert ("MapPartitions" in plan) is capped
