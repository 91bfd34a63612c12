"""Streams between tables with a connector in a catalog: files, generated rows and sinks,
each row once where the level says so.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.errors import Canceled, EngineError, Unsupported
from mt_core.model.stream import SourceHint, StreamMember
from mt_core.spark.connectors.temporary import create_temporary
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.integration.stream_world import StreamWorld, member

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Interrupted:
    """Ends the stream at a step of its next batch, once it is told to."""

    def __init__(self) -> None:
        self.at = ""

    def __call__(self, step: str) -> None:
        if step == self.at:
            self.at = ""
            raise Canceled(f"ended before {step}")


@pytest.fixture
def interrupted() -> Interrupted:
    return Interrupted()


@pytest.fixture
def world(module_driver: SparkDriver, tmp_path: Path, interrupted: Interrupted) -> Iterator[StreamWorld]:
    world = StreamWorld(module_driver, tmp_path, watch=interrupted)
    yield world
    world.stop_all()


@pytest.mark.parametrize(
    "rows",
    [
        *([pytest.param("events e", marks=pytest.mark.slow)] if DEPTH > 1 else []),
        "events e WHERE e.n > 0",
        "(SELECT n, at FROM events WHERE n > 0) e JOIN (VALUES (1), (2)) AS t (m) ON m = n",
    ],
)
def test_windows_over_a_table_of_files_end_with_its_watermark_also_by_rows_that_are_left_out(
    world: StreamWorld, tmp_path: Path, rows: str
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    world.create(
        "CREATE TABLE events (n INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND) "
        f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{events}')"
    )
    world.sql("CREATE TABLE sums (n BIGINT)")
    (events / "0.csv").write_text("1,2026-01-01 00:00:01\n2,2026-01-01 00:00:02\n")

    job_id, definition = world.start(
        f"INSERT INTO sums SELECT sum(e.n) FROM {rows} GROUP BY window(e.at, '10 seconds')"
    )
    world.wait(lambda: world.engine.progress(job_id).batch == 0)
    for minute in (1, 2):
        (events / f"{minute}.csv").write_text(f"0,2026-01-01 00:0{minute}:00\n")
        world.wait(lambda number=minute: world.engine.progress(job_id).batch == number)

    world.wait_rows([3], "sums")
    assert definition.reads == (("lake", world.namespace, "events"),)


@pytest.mark.parametrize(
    "step",
    [
        *([pytest.param("write", marks=pytest.mark.slow)] if DEPTH > 1 else []),
        "publish",
        pytest.param("published", marks=pytest.mark.slow),
    ],
)
def test_a_batch_is_in_a_table_of_files_once_wherever_its_stream_ends(
    world: StreamWorld, interrupted: Interrupted, tmp_path: Path, step: str
) -> None:
    world.create(
        "CREATE TABLE copies (row STRING, city STRING) WITH ('connector' = 'parquet', "
        f"'path' = '{tmp_path}/copies')"
    )
    world.append("a", "b")
    job_id, definition = world.start("INSERT INTO copies (row) SELECT row FROM flights")
    world.wait_rows(["a", "b"], "copies")

    interrupted.at = step
    world.append("c")
    world.wait_end(job_id)
    world.engine.start(job_id, definition, 2)
    world.append("d")
    world.wait_rows(["a", "b", "c", "d"], "copies")

    lists = tmp_path / "copies" / "_freshtable" / job_id
    [listed] = lists.glob("*.json")
    assert len(json.loads(listed.read_text())["files"]) == 1
    path = world.engine.savepoint(job_id, definition, world.folder("s"))
    world.engine.forget(job_id, definition)
    world.append("e")
    world.start("INSERT INTO copies (row) SELECT row FROM flights", restored_from=path)
    world.wait_rows(["a", "b", "c", "d", "e"], "copies")
    assert not lists.exists()


@pytest.mark.slow
def test_a_batch_is_once_in_a_temporary_table_of_files_whose_stream_is_another_one(
    world: StreamWorld, interrupted: Interrupted, tmp_path: Path
) -> None:
    for folder in ("events", "sums"):
        (tmp_path / folder).mkdir()
    temporary = (
        "CREATE TEMPORARY TABLE events (n INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at - INTERVAL '1' "
        f"SECOND) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/events')",
        "CREATE TEMPORARY TABLE sums (kind STRING, n BIGINT) PARTITIONED BY (kind) "
        f"WITH ('connector' = 'json', 'path' = '{tmp_path}/sums')",
    )
    text = "INSERT INTO sums SELECT 'a', sum(e.n) FROM events e GROUP BY window(e.at, '10 seconds')"
    (tmp_path / "events" / "0.csv").write_text("1,2026-01-01 00:00:01\n2,2026-01-01 00:00:02\n")

    job_id, definition = world.start(text, temporary=temporary)
    for minute in (1, 2):
        world.wait(lambda number=minute: world.engine.progress(job_id).batch == number - 1)
        interrupted.at = "published" if minute == 2 else ""
        (tmp_path / "events" / f"{minute}.csv").write_text(f"0,2026-01-01 00:0{minute}:00\n")
    world.wait_end(job_id)
    world.engine.start(job_id, definition, 2)
    (tmp_path / "events" / "3.csv").write_text("0,2026-01-01 00:03:00\n")
    written = tmp_path / "sums" / "kind=a"
    world.wait(lambda: len([*written.glob("*.json")]) >= 2)

    create_temporary(world.driver, world.session, temporary[1])
    assert sorted(map(tuple, world.sql("SELECT kind, n FROM sums"))) == [("a", 0), ("a", 3)]
    assert (definition.reads, definition.writes) == ((("events",),), (("sums",),))


def test_a_stream_from_a_temporary_table_of_files_into_itself_is_refused(
    world: StreamWorld, tmp_path: Path
) -> None:
    temporary = (
        f"CREATE TEMPORARY TABLE cities (row STRING) WITH ('connector' = 'csv', 'path' = '{tmp_path}')",
    )
    definition = world.definition("c", "INSERT INTO Cities SELECT * FROM cities", temporary=temporary)

    with pytest.raises(Unsupported, match="The statement reads Cities, which it writes"):
        world.engine.prepare(definition, "j")


@pytest.mark.slow
def test_an_interval_join_gives_pairs_at_once_and_with_drain_what_waits_for_its_pair(
    world: StreamWorld,
) -> None:
    for table in ("orders", "shipments"):
        world.sql(f"CREATE TABLE {table} (id INT, ts TIMESTAMP)")
        world.sql(f"INSERT INTO {table} VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
    world.sql("INSERT INTO orders VALUES (2, TIMESTAMP '2026-01-01 00:00:30')")
    world.sql("CREATE TABLE pairs (row STRING)")
    text = (
        "INSERT INTO pairs SELECT concat(o.id, '-', coalesce(s.id, 0)) FROM orders WATERMARK ts DELAY "
        "OF INTERVAL 1 MINUTE AS o LEFT JOIN shipments WATERMARK ts DELAY OF INTERVAL 1 MINUTE AS s "
        "ON o.id = s.id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR"
    )

    job_id, definition = world.start(text)
    world.wait_rows(["1-1"], "pairs")
    world.sql("INSERT INTO shipments VALUES (2, TIMESTAMP '2026-01-01 00:10:00')")
    world.wait_rows(["1-1", "2-2"], "pairs")
    world.sql("INSERT INTO orders VALUES (3, TIMESTAMP '2026-01-01 00:20:00')")

    world.engine.savepoint(job_id, definition, world.folder("s"), drain=True)

    assert world.rows("pairs") == ["1-1", "2-2", "3-0"]
    progress = world.engine.progress(job_id)
    assert (progress.running, progress.error, progress.rows_read, progress.rows_written) == (
        False,
        None,
        5,
        3,
    )


@pytest.mark.slow
def test_a_drain_that_fails_closes_no_window(world: StreamWorld, interrupted: Interrupted) -> None:
    world.sql("CREATE TABLE readings (ts TIMESTAMP, n INT)")
    world.sql("CREATE TABLE sums (n BIGINT)")
    text = (
        "INSERT INTO sums SELECT sum(n) FROM readings WATERMARK ts DELAY OF INTERVAL 1 SECOND "
        "GROUP BY window(ts, '10 seconds')"
    )
    world.sql("INSERT INTO readings VALUES (TIMESTAMP '2026-01-01 00:00:01', 1)")
    job_id, definition = world.start(text)
    world.wait(lambda: world.engine.progress(job_id).batch == 0)

    interrupted.at = "publish"
    with pytest.raises(EngineError, match="ended before publish"):
        world.engine.savepoint(job_id, definition, world.folder("s"), drain=True)
    world.engine.start(job_id, definition, 2)
    world.sql("INSERT INTO readings VALUES (TIMESTAMP '2026-01-01 00:00:02', 2)")
    world.wait(lambda: world.engine.progress(job_id).batch == 1)
    world.engine.savepoint(job_id, definition, world.folder("s"), drain=True)

    assert world.rows("sums") == [3]


@pytest.mark.slow
def test_partitions_that_a_stream_adds_to_a_table_of_files_are_read(
    world: StreamWorld, tmp_path: Path
) -> None:
    world.create(
        "CREATE TABLE copies (n INT, row STRING) PARTITIONED BY (row) "
        f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/copies')"
    )
    world.append("a", "b")

    job_id, definition = world.start("INSERT INTO copies SELECT 1, row FROM flights")
    world.wait(lambda: len(world.sql("SELECT * FROM copies")) == 2)
    world.append("b")
    world.wait(lambda: len(world.sql("SELECT * FROM copies")) == 3)

    assert sorted(map(tuple, world.sql("SELECT n, row FROM copies"))) == [(1, "a"), (1, "b"), (1, "b")]
    assert (tmp_path / "copies" / "row=b").is_dir()
    world.engine.stop(job_id, definition)
    [table] = world.connectors.all().values()
    world.sql(f"DROP TABLE {table.spark_name}")
    world.engine.start(job_id, definition, 2)
    assert (
        world.engine.progress(job_id).error
        == f"Table lake.{world.namespace}.copies, which the job writes, was dropped."
    )
    world.engine.forget(job_id, definition)


@pytest.mark.slow
def test_generated_rows_of_a_catalog_are_printed_under_the_names_of_its_tables(
    world: StreamWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.create("CREATE TABLE pace (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20')")
    world.create("CREATE TABLE shown (n BIGINT) WITH ('connector' = 'print')")

    _, definition = world.start(
        "INSERT INTO shown SELECT pace.n FROM pace", "INSERT INTO arrivals SELECT 'a' FROM pace"
    )

    name = f"lake.{world.namespace}.shown"
    world.wait(lambda: any(record.getMessage().startswith(f"{name}: +I[") for record in caplog.records))
    world.wait(lambda: "a" in world.rows())
    assert definition.reads == (("lake", world.namespace, "pace"),)


def test_explain_shows_sources_state_and_how_the_rows_arrive(world: StreamWorld, tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    world.create(
        f"CREATE TABLE copies (row STRING) WITH ('connector' = 'parquet', 'path' = '{tmp_path}/copies')"
    )
    world.create("CREATE TABLE pace (n BIGINT) WITH ('connector' = 'datagen')")
    world.append("a", "b")
    [snapshot] = world.sql(f"SELECT snapshot_id FROM lake.{world.namespace}.flights.snapshots")
    text = "INSERT INTO copies SELECT f.row FROM flights f JOIN arrivals a ON f.row = a.row"
    start = text.index("arrivals")
    hint = SourceHint(start=start, stop=start + len("arrivals"), options={"streaming": "false"})
    counting = (
        "SELECT count(*) FROM pace WATERMARK timestamp_seconds(n) AS at DELAY OF INTERVAL 1 SECOND "
        "GROUP BY window(at, '1 minute')"
    )

    explained = world.explain(StreamMember(text=text, hints=(hint,)))
    several = world.explain(
        member("INSERT INTO arrivals SELECT 'x' FROM pace"),
        member("INSERT INTO arrivals SELECT * FROM copies"),
    )

    place = f"lake.{world.namespace}"
    assert explained.splitlines()[:6] == [
        "== Stream ==",
        f"Source {place}.flights: the 2 rows of snapshot {snapshot[0]} first, then what is appended after it",
        f"Table {place}.arrivals: as it stands at each batch",
        "State: none",
        f"Sink {place}.copies: each batch once; its files appear one after the other",
        "",
    ]
    assert "== Physical Plan ==" in explained
    assert (
        f"== Statement 2 ==\n== Stream ==\nSource {place}.copies: each file of its folder once\nState: none"
        in several
    )
    assert f"Source {place}.pace: generated rows, unbounded" in several
    assert "State: retained from batch to batch, in the checkpoint" in world.explain(member(counting))
