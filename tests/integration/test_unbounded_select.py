"""Unbounded results: a SELECT over streams goes on while others commit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mt_core.base.rowset import PageForm, RowKind
from mt_core.errors import MtError, QueryFailed
from mt_core.model.stream import StreamMember
from mt_core.sessions.ports import ResultRows, SessionContext
from mt_core.spark.connectors.temporary import create_temporary
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.row_stream import StreamedRows
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.sql.parser import ReadStatement

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WAIT_S = 120.0
_numbers = itertools.count()


class World:
    """A session, and a table of Iceberg with one row."""

    def __init__(self, driver: SparkDriver) -> None:
        number = next(_numbers)
        self.driver, self.statements = driver, SparkStatements(SparkContexts(driver))
        self.context = SessionContext(session_id=f"unbounded-{number}", properties={})
        self.table = f"lake.default.unbounded_{number}"
        self.results: list[ResultRows] = []
        self.run(f"CREATE TABLE {self.table} (n BIGINT, city STRING) USING iceberg")
        self.run(f"INSERT INTO {self.table} VALUES (1, 'Rome')")

    def run(self, sql: str) -> None:
        self.statements.execute(self.context, sql, job_id=f"unbounded-{next(_numbers)}")

    def create(self, sql: str) -> None:
        with self.statements._sessions.use(self.context) as session:
            create_temporary(self.driver, session, sql)

    def member(self, sql: str) -> StreamMember:
        read = ReadStatement(sql)
        return StreamMember(text=read.text, hints=read.hints)

    def reads_stream(self, sql: str) -> bool:
        return self.statements.reads_stream(self.context, self.member(sql))

    def count(self, table: str) -> int:
        with self.statements._sessions.use(self.context) as session:
            return session.table(table).count()

    def explain(self, sql: str) -> str:
        return self.statements.explain_streams(self.context, (self.member(sql),), (), "simple")

    def active_streams(self) -> int:
        with self.statements._sessions.use(self.context) as session:
            return len(session.streams.active)

    def follow(self, sql: str) -> ResultRows:
        rows = self.statements.follow(self.context, self.member(sql), job_id=f"unbounded-{next(_numbers)}")
        self.results.append(rows)
        return rows


@pytest.fixture
def world(spark_driver: SparkDriver) -> Iterator[World]:
    world = World(spark_driver)
    yield world
    for rows in world.results:
        rows.close()


def first(rows: ResultRows, count: int) -> list[list[object]]:
    """Wait until there are *count* rows, and return them."""
    deadline = time.monotonic() + WAIT_S
    while rows.available(0, count, 1.0) < count:
        assert rows.running, rows.page(0, count)
        assert time.monotonic() < deadline, "the rows did not come"
    return rows.page(0, count)


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.1)


def test_a_select_has_the_rows_that_are_there_and_those_that_come(world: World) -> None:
    rows = world.follow(f"SELECT n * 10 AS n, city FROM {world.table} AS t WHERE n <> 2")

    before = first(rows, 1)
    world.run(f"INSERT INTO {world.table} VALUES (2, 'Oslo'), (3, 'Bonn')")
    after = first(rows, 2)
    ends: list[MtError | None] = []
    rows.on_end(ends.append)
    assert isinstance(rows, StreamedRows)
    stalled, running = rows.stalled, rows.running
    active = world.active_streams()
    rows.close()
    wait_until(lambda: world.active_streams() == 0)

    assert active == 1
    assert (before, after) == ([[10, "Rome"]], [[10, "Rome"], [30, "Bonn"]])
    assert (stalled, running, rows.running, len(ends)) == (True, True, False, 1)


def test_a_select_whose_table_loses_a_column_that_it_reads_ends_with_an_error(world: World) -> None:
    rows = world.follow(f"SELECT n, city FROM {world.table}")
    first(rows, 1)
    ends: list[MtError | None] = []
    rows.on_end(ends.append)

    world.run(f"ALTER TABLE {world.table} DROP COLUMN city")
    world.run(f"ALTER TABLE {world.table} ADD COLUMN city STRING")
    world.run(f"INSERT INTO {world.table} VALUES (2, 'Oslo')")
    wait_until(lambda: ends != [])

    assert (
        str(ends[0])
        == f"{world.table} was altered while it was read: column `city` was dropped, renamed or changed."
    )


def test_a_select_whose_row_fails_ends_with_the_error_of_a_batch(world: World) -> None:
    rows = world.follow(f"SELECT 10 / (n - 2) AS n FROM {world.table}")
    first(rows, 1)
    ends: list[MtError | None] = []
    rows.on_end(ends.append)

    world.run(f"INSERT INTO {world.table} VALUES (2, 'Oslo')")
    wait_until(lambda: ends != [])

    assert isinstance(ends[0], QueryFailed)
    assert ends[0].message.startswith("[DIVIDE_BY_ZERO] Division by zero.")
    assert (ends[0].error_class, ends[0].sqlstate, "Traceback" in str(ends[0])) == (
        "DIVIDE_BY_ZERO",
        "22012",
        False,
    )


@pytest.mark.slow
def test_a_table_without_end_gives_rows(world: World) -> None:
    world.create("CREATE TEMPORARY TABLE r (n BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '50')")
    world.run("CREATE TEMPORARY VIEW odd AS SELECT n FROM r WHERE n % 2 = 1")

    rows = world.follow("SELECT n FROM odd")

    assert sorted(row[0] for row in first(rows, 20)) == [2 * number + 1 for number in range(20)]


def test_a_temporary_table_of_files_gives_its_rows_and_those_that_come(world: World, tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text('{"n": 1, "city": "Rome"}\n')
    world.create(
        "CREATE TEMPORARY TABLE cities (city STRING, n INT) "
        f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}')"
    )
    world.run("CREATE TEMPORARY VIEW short AS SELECT * FROM cities WHERE length(city) < 5")

    rows = world.follow("SELECT s.city, s.n + 1 AS n FROM short s")
    before = first(rows, 1)
    (tmp_path / "1.json").write_text('{"n": 2, "city": "London"}\n{"n": 3, "city": "Oslo"}\n')
    after = first(rows, 2)
    known = world.count("cities")
    world.run("REFRESH TABLE cities")

    assert (before, after) == ([["Rome", 2]], [["Rome", 2], ["Oslo", 4]])
    assert (known, world.count("cities")) == (1, 3)
    assert world.reads_stream("SELECT * FROM cities")
    assert not world.reads_stream("SELECT * FROM cities /*+ OPTIONS('streaming' = 'false') */ AS c")
    explained = world.explain("SELECT * FROM cities")
    assert "Source cities: each file of its folder once\nState: none" in explained


def test_a_select_that_names_no_column_of_a_stream_fails_before_it_has_a_job(world: World) -> None:
    with pytest.raises(QueryFailed, match="UNRESOLVED_COLUMN") as failure:
        world.reads_stream(f"SELECT nope FROM {world.table} AS t")

    assert failure.value.error_class == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


def test_what_reads_a_stream_is_known_before_it_runs(world: World) -> None:
    world.create("CREATE TEMPORARY TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')")

    streams = {
        sql: world.reads_stream(sql)
        for sql in (
            f"SELECT * FROM {world.table}",
            f"INSERT INTO {world.table} SELECT n, 'x' FROM {world.table}",
            f"SELECT * FROM {world.table} /*+ OPTIONS('streaming' = 'false') */ AS x",
            "SELECT * FROM g",
            "SELECT 1",
            f"INSERT INTO {world.table} VALUES (1, 'x')",
        )
    }

    assert list(streams.values()) == [True, True, False, True, False, False]


def test_a_select_of_generated_rows_that_end_ends_with_them(world: World) -> None:
    world.create(
        "CREATE TEMPORARY TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '25')"
    )

    rows = world.follow("SELECT count(*) AS counted, sum(n) AS summed FROM g")
    wait_until(lambda: not rows.running)
    *_, last = rows.page(0, 100)

    assert "Source g: generated rows, up to the last one" in world.explain("SELECT n FROM g")
    assert last == [25, 325]


def test_a_select_of_an_aggregate_gives_changes(world: World) -> None:
    counts = f"SELECT city, count(*) AS n FROM {world.table} GROUP BY city"
    rows = world.follow(counts)

    before = first(rows, 1), rows.kinds(0, 1)
    world.run(f"INSERT INTO {world.table} VALUES (2, 'Rome')")
    after = first(rows, 3), rows.kinds(0, 3)

    assert rows.changelog
    assert before == ([["Rome", 1]], [RowKind.INSERT])
    assert after == (
        [["Rome", 1], ["Rome", 1], ["Rome", 2]],
        [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER],
    )
    assert [column.name for column in rows.columns] == ["city", "n"]
    table = pa.ipc.open_stream(rows.encoded(0, 3, PageForm.ARROW)).read_all()
    assert table.to_pydict() == {"city": ["Rome"] * 3, "n": [1, 1, 2], "__row_kind": [0, 1, 2]}
    explained = world.explain(counts)
    lines = f"Source {world.table}: from its first snapshot on\nState: retained from batch to batch"
    assert lines in explained
    assert "Changes: rows retract and replace rows that were emitted before [I,UB,UA]" in explained
