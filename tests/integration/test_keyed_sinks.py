"""Batches of changes in tables with a primary key, on a real Spark:
each key has the row that its last change gives it.
"""

from __future__ import annotations

import json
import logging
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from mt_core.errors import DefinitionInvalid, MtError, Unsupported
from mt_core.model.storage import BATCH, JOB_ID
from mt_core.model.stream_plan import SinkTarget
from mt_core.model.table import TableIdentifier
from mt_core.plans.durations import FOR_EVER
from mt_core.plans.operators import RowKind
from mt_core.plans.policies import operator_policy
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.connectors.jdbc.keyed_sink import KeyedJdbcSink
from mt_core.spark.connectors.key_changes import key_changes
from mt_core.spark.connectors.rowless import PrintSink
from mt_core.spark.connectors.temporary import create_temporary
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.replace_rows import replace_rows
from mt_core.spark.streams.materialization import materialized
from mt_core.spark.streams.sinks import iceberg as sinks
from mt_core.spark.streams.sinks.iceberg import IcebergSink
from tests.depth import DEPTH
from tests.integration.operator_stream import OperatorStream
from tests.integration.stream_world import StreamWorld, member

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Row = tuple[int, str, int]
Change = tuple[int, str, int, int]
"""A key, two values, and a kind."""
CHANGE = pa.schema([("id", pa.int32()), ("city", pa.string()), ("n", pa.int32()), (ROW_KIND, pa.int8())])
BATCHES = 3
KEYS = 30
TABLES = {
    "places": "",
    "keys": "TBLPROPERTIES ('write.upsert' = 'equality-delete')",
    "vectors": (
        "PARTITIONED BY (city) TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read')"
    ),
}
"""Tables by how rows that are replaced go."""
if DEPTH > 1:
    TABLES |= {
        "merge on read": "PARTITIONED BY (city) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')",
        "copies": "PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')",
    }
SHORT = ("places",)
COLUMNS = {
    "k": ("int", "INT", "0"),
    "t": ("text", "STRING", "'Rom\u00e9'"),
    "b": ("boolean", "BOOLEAN", "true"),
    "s": ("smallint", "SMALLINT", "CAST(3 AS SMALLINT)"),
    "l": ("bigint", "BIGINT", "5000000000L"),
    "x": ("double precision", "DOUBLE", "1.5D"),
    "r": ("real", "FLOAT", "2.5F"),
    "m": ("numeric(9, 2)", "DECIMAL(9, 2)", "12.34BD"),
    "d": ("date", "DATE", "DATE '2026-03-29'"),
    "i": ("timestamptz", "TIMESTAMP_LTZ(6)", "TIMESTAMP '2026-03-29 02:30:00.000001 UTC'"),
    "w": ("timestamp", "TIMESTAMP_LTZ(6)", "TIMESTAMP '1990-01-01 00:00:00.000001'"),
    "raw": ("bytea", "BYTES", "X'00ff'"),
}
"""Columns by their names: their types in PostgreSQL and in CREATE TABLE, and a value."""


@pytest.fixture
def world(module_driver: SparkDriver, tmp_path: Path) -> Iterator[StreamWorld]:
    world = StreamWorld(module_driver, tmp_path)
    yield world
    world.stop_all()


def rows_of(world: StreamWorld, changes: Sequence[Change]) -> DataFrame:
    # Spark reads rows of Arrow, but Python converts those of a list for each job.
    rows = [dict(zip(CHANGE.names, change, strict=True)) for change in changes]
    return world.session.createDataFrame(pa.Table.from_pylist(rows, schema=CHANGE))


def random_changes(choose: random.Random, rows: Mapping[int, Row]) -> tuple[list[Change], dict[int, Row]]:
    """Return a batch of changes, as operators give them, to a table with *rows*, and its rows after them."""
    changes, after = list[Change](), dict(rows)
    for key in choose.sample(range(KEYS), KEYS // 3):
        for _ in range(choose.randint(1, 3)):
            if key in after:
                old, kind = after.pop(key), choose.choice([RowKind.UPDATE_BEFORE, RowKind.DELETE])
                changes.append((*old, kind.code))
            if choose.random() < 0.7:
                after[key] = (key, choose.choice(["Rome", "Oslo", "Bonn"]), choose.randint(0, 3))
                changes.append((*after[key], choose.choice([RowKind.INSERT, RowKind.UPDATE_AFTER]).code))
    return changes, after


def test_changes_of_a_key_sum_up_to_its_row_or_its_end(world: StreamWorld) -> None:
    changes: list[Change] = [
        # It came.
        (1, "Rome", 1, 0),
        # It was replaced, twice.
        (2, "Rome", 1, 1),
        (2, "Oslo", 2, 2),
        (2, "Oslo", 2, 1),
        (2, "Bonn", 3, 2),
        # It went.
        (3, "Rome", 1, 3),
        # It came and went.
        (4, "Rome", 1, 0),
        (4, "Rome", 1, 3),
        # A filter has taken one of the two.
        (5, "Rome", 1, 1),
        (6, "Rome", 1, 2),
        # It did not change, in the columns that are left.
        (7, "Rome", 1, 1),
        (7, "Rome", 1, 2),
    ]
    orders = [changes, changes[::-1]]

    found = [sorted(map(tuple, key_changes(rows_of(world, each), ["id"], "t").collect())) for each in orders]

    expected = [
        (1, "Rome", 1, 0),
        (2, "Bonn", 3, 0),
        (3, None, None, 3),
        (5, None, None, 3),
        (6, "Rome", 1, 0),
    ]
    assert found == [expected, expected]


def test_of_rows_that_only_come_the_last_one_of_a_key_stays(world: StreamWorld) -> None:
    rows = world.session.sql("SELECT id % 3 AS k, map('n', id) AS m FROM range(0, 10, 1, 4)")

    found = key_changes(rows, ["k"], "t").collect()

    assert sorted((row.k, row.m["n"], row[ROW_KIND]) for row in found) == [(0, 9, 0), (1, 7, 0), (2, 8, 0)]


def test_a_key_that_is_null_is_refused_by_the_name_of_its_table(world: StreamWorld) -> None:
    rows = world.session.sql("SELECT CAST(NULL AS INT) AS k, 1 AS n")

    with (
        world.driver.translating(),
        pytest.raises(Exception, match="Table t: a row has NULL in column k of its PRIMARY KEY"),
    ):
        key_changes(rows, ["k"], "t").collect()


class KeyedTable:
    """A table with a key, and the sink of an attempt on it."""

    def __init__(self, world: StreamWorld, clauses: str) -> None:
        self.world, self.job_id, self.batch = world, uuid4().hex, -1
        self.name = f"lake.{world.namespace}.places"
        world.sql(f"CREATE TABLE places (id INT NOT NULL, city STRING, n INT) USING iceberg {clauses}")
        world.sql("ALTER TABLE places SET IDENTIFIER FIELDS id")
        self.sink = self.attempt(1)

    def attempt(self, number: int) -> IcebergSink:
        attempt = self.world.engine._attempt(self.job_id, self.world.definition(), number)
        sink = IcebergSink(TableIdentifier("lake", (self.world.namespace,), "places"), attempt, keys=["id"])
        sink.open()
        return sink

    def publish(self, changes: Sequence[Change], check: Callable[[str], object] = lambda _step: None) -> int:
        self.batch += 1
        return self.sink.publish(rows_of(self.world, changes), self.batch, check)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.world.sql("SELECT * FROM places")))

    def commits(self) -> list[str]:
        """Return the batch of each commit that has changed the table, None for one of another writer."""
        history = self.world.sql(
            f"SELECT s.summary['{JOB_ID}'] AS job, s.summary['{BATCH}'] AS batch FROM {self.name}.history h "
            f"JOIN {self.name}.snapshots s USING (snapshot_id) WHERE h.is_current_ancestor "
            "ORDER BY s.committed_at"
        )
        return [row.batch for row in history if row.job in (None, self.job_id)]


@pytest.mark.parametrize(
    "clauses",
    [
        pytest.param(clauses, id=name, marks=() if name in SHORT else pytest.mark.slow)
        for name, clauses in TABLES.items()
    ],
)
def test_each_batch_of_changes_is_one_commit_beside_other_writers(world: StreamWorld, clauses: str) -> None:
    table, choose, rows = KeyedTable(world, clauses), random.Random(5), dict[int, Row]()
    others = list[str]()

    def other_writer(step: str) -> None:
        if step == "publish" and not others:
            others.append(step)
            world.sql(f"INSERT INTO places VALUES ({KEYS}, 'Kyiv', 0)")

    counts, expected = [], []
    for number in range(BATCHES):
        changes, rows = random_changes(choose, rows)
        counts.append(table.publish(changes, other_writer if number == 1 else lambda _step: None))
        expected.append(sorted(rows.values()))
        assert table.rows() == [*expected[-1], *([(KEYS, "Kyiv", 0)] if others else [])]
    table.publish([])

    assert table.sink.last_batch() == BATCHES - 1
    assert [each for each in table.commits() if each is not None] == [
        str(number) for number in range(BATCHES)
    ]
    assert min(counts) > 0
    assert others == ["publish"]


def test_a_small_batch_of_changes_replaces_the_metadata_of_its_table_once(world: StreamWorld) -> None:
    table = KeyedTable(world, "")
    counts = list[int]()

    for changes in ([(1, "Rome", 1, 0)], [(1, "Rome", 1, 3), (1, "Oslo", 2, 0)], [(1, "Oslo", 2, 3)]):
        table.publish(changes)
        counts.append(world.sql(f"SELECT count(*) FROM {table.name}.metadata_log_entries")[0][0])

    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]
    assert table.rows() == []


def test_a_batch_without_rows_commits_nothing_and_leaves_no_file(world: StreamWorld) -> None:
    world.sql("CREATE TABLE numbers (id BIGINT) USING iceberg")
    attempt = world.engine._attempt(uuid4().hex, world.definition(), 1)
    sink = IcebergSink(TableIdentifier("lake", (world.namespace,), "numbers"), attempt)
    sink.open()
    folder = Path(str(sink._load().location()).removeprefix("file:"))
    before = sorted(folder.rglob("*"))

    count = sink.publish(world.session.range(10).where("id < 0"), 0, lambda _step: None)

    assert (count, sorted(folder.rglob("*"))) == (0, before)


def test_what_another_writer_commits_while_a_batch_is_staged_stays(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, others = KeyedTable(world, ""), list[str]()
    table.publish([(1, "Rome", 1, 0), (2, "Oslo", 2, 0)])
    stage = replace_rows

    def staged_late(*arguments: Any) -> None:
        if not others:
            others.append("committed")
            world.sql("INSERT INTO places VALUES (9, 'Kyiv', 0)")
        stage(*arguments)

    monkeypatch.setattr(sinks, "replace_rows", staged_late)
    table.publish([(1, "Rome", 1, 3), (3, "Bonn", 3, 0)])

    assert table.rows() == [(2, "Oslo", 2), (3, "Bonn", 3), (9, "Kyiv", 0)]
    assert table.sink.last_batch() == 1


class JdbcTable:
    """A table of a database with a key, and the sink of a stream on it."""

    def __init__(self, world: StreamWorld, url: str, options: str = "") -> None:
        self.world, self.url, self.batch = world, url, -1
        text = (
            "CREATE TEMPORARY TABLE places (id INT, city STRING, n INT, PRIMARY KEY (ID) NOT ENFORCED) "
            f"WITH ('connector' = 'jdbc', 'url' = '{url}', 'table-name' = 'places'{options})"
        )
        create_temporary(world.driver, world.session, text)
        target = SinkTarget(table=("places",), connector="jdbc", stored_name="places", keys=("ID",))
        attempt = world.engine._attempt("j", world.definition(temporary=(text,)), 1)
        self.sink = KeyedJdbcSink(target, attempt)
        self.sink.open()

    def publish(self, rows: DataFrame, batch: int) -> int:
        return self.sink.publish(rows, batch, lambda _step: None)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.world.sql("SELECT * FROM places")))


def sqlite_url(folder: Path, key: str = "INTEGER") -> str:
    with closing(sqlite3.connect(folder / "base.db")) as database:
        database.execute(f"CREATE TABLE places (id {key} PRIMARY KEY, city TEXT, n INTEGER)")
    return f"jdbc:sqlite:{folder}/base.db"


def test_changes_in_a_database_are_one_transaction_that_may_be_repeated(
    world: StreamWorld, tmp_path: Path
) -> None:
    table, choose, rows = JdbcTable(world, sqlite_url(tmp_path)), random.Random(7), dict[int, Row]()

    for number in range(BATCHES):
        changes, rows = random_changes(choose, rows)
        counts = [table.publish(rows_of(world, changes), number) for _ in range(2)]

        assert (table.rows(), counts[0]) == (sorted(rows.values()), counts[1])


def test_a_database_that_refuses_a_row_keeps_none_of_its_batch(world: StreamWorld, tmp_path: Path) -> None:
    table = JdbcTable(world, sqlite_url(tmp_path))
    table.publish(rows_of(world, [(1, "Rome", 1, 0)]), 0)
    with closing(sqlite3.connect(tmp_path / "base.db")) as database:
        database.execute(
            "CREATE TRIGGER t BEFORE INSERT ON places WHEN NEW.n < 0 BEGIN "
            "SELECT RAISE(ABORT, 'too few'); END"
        )

    with pytest.raises(MtError, match="too few"), world.driver.translating():
        table.publish(rows_of(world, [(1, "Rome", 1, 3), (2, "Oslo", 2, 0), (3, "Bonn", -1, 0)]), 1)

    assert table.rows() == [(1, "Rome", 1)]


@pytest.mark.slow
def test_a_database_without_upserts_deletes_the_rows_first(world: StreamWorld) -> None:
    url = f"jdbc:derby:memory:{uuid4().hex};create=true"
    empty = world.session.createDataFrame([], "id INT, city STRING, n INT")
    empty.write.format("jdbc").options(
        url=url, dbtable="places", driver="org.apache.derby.iapi.jdbc.AutoloadedDriver"
    ).save()
    table, choose, rows = (
        JdbcTable(world, url, ", 'driver' = 'org.apache.derby.iapi.jdbc.AutoloadedDriver'"),
        random.Random(7),
        dict[int, Row](),
    )

    for number in range(BATCHES):
        changes, rows = random_changes(choose, rows)
        table.publish(rows_of(world, changes), number)

    assert table.rows() == sorted(rows.values())


@pytest.mark.postgres
@pytest.mark.slow
def test_values_of_all_types_are_in_postgresql_as_they_were_given(
    world: StreamWorld, postgres_database: str
) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        columns = ", ".join(f"{name} {outside}" for name, (outside, _, _) in COLUMNS.items())
        connection.execute(f"CREATE TABLE everything ({columns}, PRIMARY KEY (k))")
    columns = ", ".join(f"{name} {written}" for name, (_, written, _) in COLUMNS.items())
    text = (
        f"CREATE TEMPORARY TABLE everything ({columns}, PRIMARY KEY (k) NOT ENFORCED) WITH "
        f"('connector' = 'jdbc', 'url' = 'jdbc:postgresql://{postgres_database.partition('@')[2]}', "
        "'table-name' = 'everything', 'username' = 'freshtable')"
    )
    create_temporary(world.driver, world.session, text)
    target = SinkTarget(table=("everything",), connector="jdbc", stored_name="everything", keys=("k",))
    sink = KeyedJdbcSink(target, world.engine._attempt("j", world.definition(temporary=(text,)), 1))
    values = ", ".join(f"{value} AS {name}" for name, (_, _, value) in COLUMNS.items() if name != "k")
    nulls = ", ".join(f"IF(k = 1, {name}, NULL)" for name in COLUMNS if name != "k")
    rows = world.session.sql(
        f"SELECT k, {nulls} FROM (SELECT {values}), (VALUES (1), (2), (1)) AS t (k)"
    ).toDF(*COLUMNS)

    sink.publish(rows, 0, lambda _step: None)
    sink.publish(rows, 0, lambda _step: None)

    found = world.sql("SELECT * FROM everything ORDER BY k")
    assert [tuple(row) for row in found] == [tuple(row) for row in rows.distinct().orderBy("k").collect()]


def test_print_shows_the_kind_of_each_row(world: StreamWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    text = "CREATE TEMPORARY TABLE shown (id INT, city STRING, n INT) WITH ('connector' = 'print')"
    create_temporary(world.driver, world.session, text)
    target = SinkTarget(table=("shown",), connector="print", stored_name="shown")
    sink = PrintSink(target, world.engine._attempt("j", world.definition(temporary=(text,)), 1))

    count = sink.publish(
        rows_of(world, [(1, "Rome", 1, kind.code) for kind in RowKind]), 0, lambda _step: None
    )

    printed = [record.getMessage() for record in caplog.records if record.getMessage().startswith("shown: ")]
    assert printed == [f"shown: {kind.value}[1, 'Rome', 1]" for kind in RowKind]
    assert count == 4


@pytest.mark.slow
def test_rows_of_a_stream_replace_those_with_their_key_in_each_table_with_a_key(
    world: StreamWorld, tmp_path: Path
) -> None:
    world.sql("CREATE TABLE latest (k STRING NOT NULL, row STRING)")
    world.sql("ALTER TABLE latest SET IDENTIFIER FIELDS k")
    temporary = (
        "CREATE TEMPORARY TABLE places (id STRING, city STRING, n INT, PRIMARY KEY (id) NOT ENFORCED) WITH "
        f"('connector' = 'jdbc', 'url' = '{sqlite_url(tmp_path, 'TEXT')}', 'table-name' = 'places')",
    )
    world.append("a1", "b1", "a2")
    query = "SELECT substring(row, 1, 1) AS k, row FROM flights"

    job_id, _ = world.start(
        f"INSERT INTO latest {query}",
        f"INSERT INTO latest {query}",
        f"INSERT INTO places (id, city) {query}",
        temporary=temporary,
    )
    world.wait(lambda: world.rows("latest") == ["a", "b"])
    world.append("b2", "c2")
    world.wait(lambda: len(world.rows("latest")) == 3)
    world.wait(lambda: world.engine.progress(job_id).batch == 1)

    assert sorted(map(tuple, world.sql("SELECT * FROM latest"))) == [("a", "a2"), ("b", "b2"), ("c", "c2")]
    with closing(sqlite3.connect(tmp_path / "base.db")) as database:
        assert database.execute("SELECT * FROM places ORDER BY 1").fetchall() == [
            ("a", "a2", None),
            ("b", "b2", None),
            ("c", "c2", None),
        ]


def kept(world: StreamWorld, job_id: str) -> list[tuple[str, int]]:
    """Return the operators of a job that keep rows, and how many."""
    states = json.loads(world.engine.progress(job_id).states or "[]")
    return [(state["operator"], state["rows"]) for state in states]


def test_of_the_rows_of_a_key_that_are_left_the_last_one_is_there(world: StreamWorld, tmp_path: Path) -> None:
    columns = f"city STRING, n INT, {ROW_KIND} TINYINT"
    stream = OperatorStream(
        world.session,
        tmp_path / "state",
        columns,
        lambda rows: materialized(rows, ["city"], operator_policy(FOR_EVER)),
    )
    batches = [
        [("Rome", 1, "+I"), ("Oslo", 7, "+I")],
        [("Rome", 2, "+I")],
        [("Rome", 1, "-D"), ("Oslo", 7, "-D")],
        [("Rome", 3, "+U"), ("Rome", 3, "-U")],
        [("Rome", 2, "-D")],
    ]

    found = [
        [
            (kind, row["city"], row["n"])
            for kind, row in stream.feed(
                *({"city": city, "n": n, ROW_KIND: RowKind(kind).code} for city, n, kind in batch)
            )
        ]
        for batch in batches
    ]
    stream.stop()

    assert [sorted(each) for each in found] == [
        [("+I", "Oslo", 7), ("+I", "Rome", 1)],
        [("+U", "Rome", 2), ("-U", "Rome", 1)],
        [("-D", "Oslo", 7)],
        [],
        [("-D", "Rome", 2)],
    ]


@pytest.mark.slow
def test_a_job_that_has_to_keep_the_rows_of_its_keys_does(world: StreamWorld) -> None:
    world.sql("CREATE TABLE latest (k STRING NOT NULL, row STRING)")
    world.sql("ALTER TABLE latest SET IDENTIFIER FIELDS k")
    world.append("a1", "b1")

    job_id, definition = world.start(
        "INSERT INTO latest SELECT substring(row, 1, 1) AS k, row FROM flights",
        settings={"table.exec.sink.upsert-materialize": "FORCE"},
    )
    world.wait(lambda: len(world.rows("latest")) == 2)
    world.append("a2")
    world.wait(lambda: world.engine.progress(job_id).rows_read == 3)

    assert kept(world, job_id) == [("sink_1", 3)]
    assert [each.materialized for each in definition.planned.members] == [("k",)]
    assert sorted(map(tuple, world.sql("SELECT * FROM latest"))) == [("a", "a2"), ("b", "b1")]


def test_an_insert_without_a_column_of_the_key_is_refused(world: StreamWorld, tmp_path: Path) -> None:
    text = (
        "CREATE TEMPORARY TABLE places (id STRING, city STRING, n INT, PRIMARY KEY (id) NOT ENFORCED) WITH "
        f"('connector' = 'jdbc', 'url' = '{sqlite_url(tmp_path, 'TEXT')}', 'table-name' = 'places')"
    )
    definition = world.definition("c", "INSERT INTO places (city) SELECT row FROM flights", temporary=(text,))

    with pytest.raises(
        DefinitionInvalid, match="INSERT INTO places gives no value for id of its PRIMARY KEY"
    ):
        world.engine.prepare(definition, "j")


@pytest.mark.slow
def test_of_rows_of_several_commits_the_one_that_was_committed_last_stays(world: StreamWorld) -> None:
    world.sql("CREATE TABLE latest (k STRING NOT NULL, row STRING)")
    world.sql("ALTER TABLE latest SET IDENTIFIER FIELDS k")
    for row in ("a1", "a2", "a3"):
        world.append(row)

    job_id, definition = world.start("INSERT INTO latest SELECT substring(row, 1, 1) AS k, row FROM flights")
    world.wait(lambda: len(world.rows("latest")) == 1)
    first = [tuple(row) for row in world.sql("SELECT * FROM latest")]
    world.engine.stop(job_id, definition)
    for row in ("b1", "b2", "b3"):
        world.append(row)
    world.engine.start(job_id, definition, 2)
    world.wait(lambda: len(world.rows("latest")) == 2)

    assert first == [("a", "a3")]
    assert sorted(map(tuple, world.sql("SELECT * FROM latest"))) == [("a", "a3"), ("b", "b3")]


@pytest.mark.slow
def test_a_key_that_has_several_rows_of_the_query_keeps_the_last_one_that_is_left(world: StreamWorld) -> None:
    world.sql("CREATE TABLE latest (k STRING NOT NULL, row STRING)")
    world.sql("ALTER TABLE latest SET IDENTIFIER FIELDS k")
    world.append("a1", "b1")
    # The number of the rows of a letter, and one of these.
    text = (
        "INSERT INTO latest SELECT CAST(count(*) AS STRING), max(row) FROM flights "
        "GROUP BY substring(row, 1, 1)"
    )

    job_id, definition = world.start(text)
    world.wait(lambda: world.rows("latest") == ["1"])
    world.append("a2")
    world.wait(lambda: world.rows("latest") == ["1", "2"])
    world.wait(lambda: world.engine.progress(job_id).batch == 1)
    states = kept(world, job_id)
    explained = world.explain(member(text))
    world.engine.savepoint(job_id, definition, world.folder("s"))

    assert [each.materialized for each in definition.planned.members] == [("k",)]
    assert sorted(map(tuple, world.sql("SELECT * FROM latest"))) == [("1", "b1"), ("2", "a2")]
    assert (
        f"Sink lake.{world.namespace}.latest: each batch once, as one commit; "
        "a row replaces the one with its k"
    ) in explained
    assert "sinkMaterializeState" in explained
    assert states == [("sink_1", 2), ("group-aggregate_1", 2)]


def test_a_query_whose_rows_change_is_refused_by_a_table_without_a_key(world: StreamWorld) -> None:
    text = "INSERT INTO arrivals SELECT max(row) FROM flights"
    table = rf"lake\.{world.namespace}\.arrivals"
    refused = rf"Table {table} only accepts new rows, and .* deletes rows: stream-exec-group-aggregate_1"

    with pytest.raises(Unsupported, match=refused):
        world.engine.prepare(world.definition("c", text), "j")
    with pytest.raises(Unsupported, match=refused):
        world.explain(member(text))
