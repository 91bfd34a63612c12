"""Streaming INSERTs on a real Spark: every row once, whatever happens beside them."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import (
    ConfigError,
    DefinitionInvalid,
    MtError,
    QueryFailed,
    TableNotFound,
    TableProtected,
    Unsupported,
)
from mt_core.model.storage import TABLE_ID
from mt_core.model.stream import OnSourceRewrite, SourceHint, StreamDefinition, StreamMember
from mt_core.spark.driver.jvm_objects import java_dataset
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams import query
from mt_core.spark.streams.sources.order import SOURCES
from tests.integration.stream_world import StreamWorld

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def world(module_driver: SparkDriver, tmp_path: Path) -> Iterator[StreamWorld]:
    world = StreamWorld(module_driver, tmp_path)
    yield world
    world.stop_all()


def test_a_stream_writes_the_rows_that_are_there_and_those_that_come(world: StreamWorld) -> None:
    world.append("a", "b")
    world.sql("INSERT OVERWRITE flights VALUES ('c')")

    job_id, definition = world.start()
    world.wait_rows(["c"])
    world.append("d")
    world.wait_rows(["c", "d"])

    progress = world.engine.progress(job_id)
    assert (progress.running, progress.error, progress.rows_written) == (True, None, 2)
    assert definition.reads == (("lake", world.namespace, "flights"),)
    assert definition.writes == (("lake", world.namespace, "arrivals"),)


def test_the_stream_of_a_materialized_table_reads_as_streams_only_what_has_no_end(world: StreamWorld) -> None:
    world.create("CREATE TABLE ticks (value BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '20')")
    world.sql(f"ALTER TABLE arrivals SET TBLPROPERTIES ('{TABLE_ID}' = 'kept')")
    world.append("a")
    joined = "INSERT INTO arrivals BY NAME SELECT row FROM ticks JOIN flights ON value = 3"
    last = joined.replace("SELECT row", "SELECT max(row) AS row")
    stateless, summed = ((StreamMember(text=text, endless_only=True),) for text in (joined, last))

    world.engine.check(world.definition(members=stateless, keeps="kept"))
    with pytest.raises(Unsupported, match="may not use aggregates"):
        world.engine.check(world.definition(members=summed, keeps="kept"))
    with pytest.raises(TableProtected, match="is a materialized table"):
        world.engine.prepare(world.definition(members=stateless, keeps="another"), "a" * 32)
    _, definition = world.start(members=stateless, keeps="kept")

    world.wait_rows(["a"])
    assert definition.planned.starts == {}
    assert definition.reads == (("lake", world.namespace, "ticks"), ("lake", world.namespace, "flights"))


def test_a_stream_that_was_killed_while_its_first_batch_was_noted_begins_again(
    world: StreamWorld, tmp_path: Path
) -> None:
    world.append("a")
    unfinished = tmp_path / "c" / "offsets" / ".0.a7b0.tmp"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_text("v1")

    definition = world.engine.prepare(world.definition("c"), "a" * 32)
    world.engine.start("a" * 32, definition, 2)

    world.append("b")
    world.wait_rows(["a", "b"])


@pytest.mark.slow
def test_a_stream_reads_the_rows_of_before_a_change_of_columns_in_the_columns_of_now(
    world: StreamWorld,
) -> None:
    world.sql("CREATE TABLE legs (id INT, origin STRING, miles INT)")
    world.sql("CREATE TABLE copies (id BIGINT, miles INT, origin STRING)")
    world.sql("INSERT INTO legs VALUES (1, 'JFK', 10)")
    world.sql("ALTER TABLE legs DROP COLUMN origin")
    world.sql("ALTER TABLE legs RENAME COLUMN miles TO distance")
    world.sql("ALTER TABLE legs ALTER COLUMN id TYPE BIGINT")
    world.sql("ALTER TABLE legs ADD COLUMN origin STRING")

    world.start(
        "INSERT INTO copies SELECT * FROM legs",
        "INSERT INTO arrivals SELECT concat(legs.id, ':', distance) FROM legs",
    )
    world.wait(lambda: world.rows() == ["1:10"])
    world.sql("INSERT INTO legs VALUES (3000000000, 20, 'BOS')")

    world.wait_rows(["1:10", "3000000000:20"])
    world.wait(lambda: len(world.rows("copies")) == 2)
    assert sorted(map(tuple, world.sql("SELECT * FROM copies"))) == [(1, 10, None), (3000000000, 20, "BOS")]


@pytest.mark.slow
def test_a_change_inside_a_struct_that_past_rows_cannot_be_read_through_is_refused_with_the_way_out(
    world: StreamWorld,
) -> None:
    world.sql("CREATE TABLE stops (place STRUCT<code: STRING>)")
    world.sql("INSERT INTO stops VALUES (named_struct('code', 'JFK'))")
    world.sql("ALTER TABLE stops ADD COLUMN place.country STRING")
    query = "INSERT INTO arrivals SELECT concat(place.code, ' ', coalesce(place.country, '?')) FROM stops"

    with pytest.raises(
        Unsupported, match=r"Column `place` of .*stops was changed after .*INSERT INTO .*stops"
    ):
        world.start(query)
    world.sql("INSERT INTO stops SELECT * FROM stops LIMIT 0")
    world.start(query)

    world.wait_rows(["JFK ?"])


@pytest.mark.slow
def test_a_stream_whose_source_is_altered_starts_again_and_gives_the_columns_of_now_under_their_names(
    world: StreamWorld,
) -> None:
    world.sql("CREATE TABLE legs (id INT, miles INT, hours INT)")
    world.sql("CREATE TABLE copies (id INT, miles INT, hours INT)")
    world.sql("INSERT INTO legs VALUES (1, 10, 100)")
    job_id, definition = world.start("INSERT INTO copies SELECT * FROM legs")
    world.wait(lambda: len(world.rows("copies")) == 1)
    world.sql("ALTER TABLE legs ADD COLUMN note STRING")
    world.sql("INSERT INTO legs VALUES (2, 20, 200, 'added')")
    world.wait(lambda: len(world.rows("copies")) == 2)

    world.sql("ALTER TABLE legs DROP COLUMN miles")
    world.sql("ALTER TABLE legs ADD COLUMN miles INT")
    world.sql("INSERT INTO legs (id, miles, hours) VALUES (3, 30, 300)")
    altered = world.wait_end(job_id)
    world.engine.start(job_id, definition, 2)
    world.wait(lambda: len(world.rows("copies")) == 3)
    world.engine.stop(job_id, definition)
    world.sql("ALTER TABLE legs RENAME COLUMN hours TO duration")
    world.engine.start(job_id, definition, 3)
    renamed = world.wait_end(job_id)

    assert (altered.final, altered.error) == (
        False,
        (
            f"lake.{world.namespace}.legs was altered while it was read: column `miles` was dropped, "
            "renamed or changed."
        ),
    )
    assert sorted(map(tuple, world.sql("SELECT * FROM copies"))) == [(1, 10, 100), (2, 20, 200), (3, 30, 300)]
    assert (renamed.final, renamed.error) == (
        True,
        "The query returns the columns (id, duration, note, miles), and returned (id, miles, hours) when the "
        "job was created. Name its columns in the place of each *, and run it again.",
    )


@pytest.mark.slow
def test_a_stream_whose_table_is_altered_names_the_lost_column_and_goes_on_once_it_is_back(
    world: StreamWorld,
) -> None:
    job_id, definition = world.start()
    world.wait(lambda: world.engine.progress(job_id).running)

    world.sql("ALTER TABLE arrivals RENAME COLUMN row TO line")
    world.append("a")
    failed = world.wait_end(job_id)
    world.sql("ALTER TABLE arrivals RENAME COLUMN line TO row")
    world.engine.start(job_id, definition, 2)

    world.wait_rows(["a"])
    assert (failed.final, failed.error) == (
        False,
        f"Column `row` of `lake`.`{world.namespace}`.`arrivals`, which the job writes, was dropped or "
        "renamed; add or rename it again, or STOP the job and run its INSERT again.",
    )


@pytest.mark.slow
def test_a_stream_goes_on_beside_other_writers_of_its_table_and_a_compaction_of_its_source(
    world: StreamWorld,
) -> None:
    world.append("a")
    world.start()
    world.wait_rows(["a"])

    world.sql("INSERT INTO arrivals VALUES ('of another one')")
    for row in "bcd":
        world.append(row)
    table = f"{world.namespace}.flights"
    world.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    )
    world.append("e")

    world.wait_rows(["a", "b", "c", "d", "e", "of another one"])


@pytest.mark.slow
def test_a_new_attempt_ends_the_one_before_and_skips_what_that_one_published(world: StreamWorld) -> None:
    world.append("a")
    job_id, definition = world.start()
    world.wait_rows(["a"])
    world.append("b")
    world.wait_rows(["a", "b"])

    world.engine.start(job_id, definition, 2)
    world.append("c")

    world.wait_rows(["a", "b", "c"])


def test_a_source_that_is_rewritten_ends_the_stream_for_good_naming_table_snapshot_and_way_out(
    world: StreamWorld,
) -> None:
    world.append("a")
    job_id, _ = world.start()
    world.wait_rows(["a"])

    world.sql("INSERT OVERWRITE flights VALUES ('b')")

    progress = world.wait_end(job_id)
    log = f"lake.{world.namespace}.flights.snapshots"
    [snapshot] = world.sql(f"SELECT snapshot_id FROM {log} WHERE operation = 'overwrite'")
    assert progress.final
    assert progress.error == (
        f"Snapshot {snapshot[0]} of lake.{world.namespace}.flights replaced rows. Run the "
        "INSERT again: its new job begins with the rows that the table has then. "
        "To skip such changes, first SET 'streaming.on-source-rewrite' = 'ignore'."
    )
    assert world.rows() == ["a"]


@pytest.mark.slow
def test_a_stream_that_ignores_rewriting_passes_over_it(world: StreamWorld) -> None:
    world.append("a")
    world.start(on_source_rewrite=OnSourceRewrite.IGNORE)
    world.wait_rows(["a"])

    world.sql("INSERT OVERWRITE flights VALUES ('b')")
    world.append("c")

    world.wait_rows(["a", "c"])


@pytest.mark.slow
def test_a_source_that_was_created_again_while_the_stream_was_stopped_is_not_read(world: StreamWorld) -> None:
    world.append("a")
    job_id, definition = world.start()
    world.wait_rows(["a"])
    world.engine.stop(job_id, definition)
    world.sql("DROP TABLE flights")
    world.sql("CREATE TABLE flights (row STRING)")
    world.append("b")

    world.engine.start(job_id, definition, 2)

    progress = world.wait_end(job_id)
    assert progress.final
    assert f"Table lake.{world.namespace}.flights was dropped and created again." in str(progress.error)
    assert world.rows() == ["a"]


@pytest.mark.slow
def test_a_target_that_was_created_again_while_the_stream_was_stopped_is_not_written(
    world: StreamWorld,
) -> None:
    world.append("a")
    job_id, definition = world.start()
    world.wait_rows(["a"])
    world.engine.stop(job_id, definition)
    world.sql("DROP TABLE arrivals")
    world.sql("CREATE TABLE arrivals (row STRING)")

    world.engine.start(job_id, definition, 2)

    progress = world.wait_end(job_id)
    assert progress.final
    assert progress.error == (
        f"Table lake.{world.namespace}.arrivals, which the job writes, was dropped and created again. "
        "Run the INSERT again: its new job begins with the rows that the table has then."
    )
    assert world.rows() == []


@pytest.mark.slow
def test_a_statement_set_is_one_stream_into_several_tables(world: StreamWorld) -> None:
    world.sql("CREATE TABLE departures (n INT, row STRING)")
    world.append("a")

    world.start(
        "INSERT INTO arrivals SELECT upper(row) FROM flights",
        "INSERT INTO departures (row) SELECT row FROM flights WHERE row <> 'b'",
        "INSERT INTO arrivals SELECT concat(row, row) FROM flights",
    )
    world.append("b", "c")

    world.wait_rows(["A", "B", "C", "aa", "bb", "cc"])
    world.wait(lambda: len(world.sql("SELECT * FROM departures")) == 2)
    assert sorted(map(tuple, world.sql("SELECT * FROM departures"))) == [(None, "a"), (None, "c")]


@pytest.mark.slow
def test_members_of_a_statement_set_that_give_other_types_keep_their_digits(world: StreamWorld) -> None:
    world.sql("CREATE TABLE fares (amount DECIMAL(38, 18))")
    world.sql("CREATE TABLE exact (amount DECIMAL(38, 18))")
    world.sql("INSERT INTO fares VALUES (1.000000000000000001)")

    world.start(
        "INSERT INTO exact SELECT amount FROM fares",
        "INSERT INTO exact SELECT 0.5D FROM fares",
    )
    world.wait(lambda: len(world.rows("exact")) == 2)
    world.sql("INSERT INTO fares VALUES (2.000000000000000002)")

    world.wait(lambda: len(world.rows("exact")) == 4)
    assert [str(amount) for amount in world.rows("exact")] == [
        "0.500000000000000000",
        "0.500000000000000000",
        "1.000000000000000001",
        "2.000000000000000002",
    ]


@pytest.mark.slow
def test_windows_with_a_watermark_are_written_when_they_are_over(world: StreamWorld) -> None:
    world.sql("CREATE TABLE readings (ts TIMESTAMP, n INT)")
    world.sql("CREATE TABLE sums (n BIGINT)")
    world.sql(
        "INSERT INTO readings VALUES (TIMESTAMP '2026-01-01 00:00:01', 1), "
        "(TIMESTAMP '2026-01-01 00:00:02', 2)"
    )

    job_id, _ = world.start(
        "INSERT INTO sums SELECT sum(n) FROM readings WATERMARK ts DELAY OF INTERVAL 1 SECOND "
        "GROUP BY window(ts, '10 seconds')"
    )
    world.wait(lambda: world.engine.progress(job_id).batch == 0)
    # The first batch knows no watermark yet; the second one has that of the first, and ends no window;
    # the third does.
    for minute in (1, 2):
        world.sql(f"INSERT INTO readings VALUES (TIMESTAMP '2026-01-01 00:0{minute}:00', 0)")
        world.wait(lambda number=minute: world.engine.progress(job_id).batch == number)

    world.wait_rows([3], "sums")


def test_what_a_stream_cannot_run_is_refused_with_the_way_out(world: StreamWorld) -> None:
    world.append("a")
    world.sql("INSERT OVERWRITE flights VALUES ('b')")

    def refusal(*texts: str) -> MtError:
        with pytest.raises(MtError) as refused:
            world.engine.prepare(world.definition("c", *texts), "a" * 32)
        return refused.value

    counted = refusal("INSERT INTO arrivals SELECT count(*) FROM flights GROUP BY row")
    assert isinstance(counted, Unsupported)
    assert "materialized table" in counted.message
    assert "'execution.runtime-mode' = 'batch'" in counted.message
    joined = refusal("INSERT INTO arrivals SELECT a.row FROM flights AS a JOIN flights AS b ON a.row = b.row")
    assert "replaced or deleted rows" in joined.message
    assert isinstance(refusal("INSERT OVERWRITE arrivals SELECT * FROM flights"), Unsupported)
    assert isinstance(refusal("INSERT INTO flights SELECT * FROM flights"), Unsupported)
    assert isinstance(refusal("INSERT INTO arrivals VALUES ('a')"), Unsupported)
    within = refusal("INSERT INTO arrivals SELECT row FROM flights WHERE row IN (SELECT row FROM flights)")
    assert "A subquery reads a table as a stream" in within.message
    missing = refusal("INSERT INTO nowhere SELECT * FROM flights")
    assert isinstance(missing, TableNotFound)
    assert (
        "nowhere; create it by CREATE TABLE, or with the stream that fills it by CREATE TABLE lake."
        in missing.message
    )
    unknown = refusal("INSERT INTO arrivals\nSELECT nothing FROM flights")
    assert isinstance(unknown, QueryFailed)
    assert (unknown.line, unknown.position) == (2, 8)
    world.sql("ALTER TABLE arrivals SET TBLPROPERTIES ('freshtable.table-id' = 'x')")
    assert isinstance(refusal("INSERT INTO arrivals SELECT * FROM flights"), TableProtected)
    assert world.rows() == []


def test_a_statement_is_analysed_once_until_its_job_is_created(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append("a")
    world.create("CREATE TABLE ticks (row STRING) WITH ('connector' = 'datagen')")
    texts = (
        "INSERT INTO arrivals SELECT * FROM flights",
        "INSERT INTO arrivals BY NAME SELECT upper(row) AS row FROM flights",
        "WITH c AS (SELECT row FROM ticks) INSERT INTO arrivals SELECT row FROM c",
    )
    parsed = []

    def counted(session: SparkSession, plan: Any) -> Any:
        if not plan.analyzed():
            parsed.append(plan)
        return java_dataset(session, plan)

    monkeypatch.setattr(query, "java_dataset", counted)

    streams = [world.reads_stream(text) for text in texts]
    world.engine.prepare(world.definition("c", *texts), "a" * 32)

    assert streams == [True, True, True]
    assert len(parsed) == len(texts)


@pytest.mark.slow
def test_a_relation_with_the_hint_is_read_as_it_stands_at_each_batch(world: StreamWorld) -> None:
    world.sql("CREATE TABLE names (row STRING, name STRING)")
    world.sql("INSERT INTO names VALUES ('a', 'Ada')")
    world.sql("CREATE VIEW known AS SELECT * FROM flights WHERE row <> 'x'")
    text = "INSERT INTO arrivals SELECT n.name FROM known AS f JOIN names AS n ON f.row = n.row"
    start = text.index("names")
    hint = SourceHint(start=start, stop=start + len("names"), options={"streaming": "false"})
    world.append("a", "x")

    world.start(members=(StreamMember(text=text, hints=(hint,)),))
    world.wait_rows(["Ada"])
    world.sql("INSERT OVERWRITE names VALUES ('b', 'Bea')")
    world.append("b", "a")

    world.wait_rows(["Ada", "Bea"])


def test_a_savepoint_has_nothing_twice_and_loses_nothing(world: StreamWorld) -> None:
    world.append("a")
    job_id, definition = world.start()
    world.wait_rows(["a"])
    for row in "bcd":
        world.append(row)

    path = world.engine.savepoint(job_id, definition, world.folder("s"))
    world.append("e")
    world.start(restored_from=path)

    world.wait_rows(["a", "b", "c", "d", "e"])
    for none in (world.folder("none"), "/", f"file://{world.folder('none')}/"):
        with pytest.raises(DefinitionInvalid, match=f"There is no savepoint in {none};"):
            world.engine.prepare(replace(definition, restored_from=none), "b" * 32)
    with pytest.raises(ConfigError, match="Savepoint odd://host/s: Spark has no file system for odd://"):
        world.engine.prepare(replace(definition, restored_from="odd://host/s"), "b" * 32)


@pytest.mark.slow
def test_a_savepoint_is_restored_whatever_the_order_of_the_names_of_its_sources(world: StreamWorld) -> None:
    """The registry keeps the definition of a job with its keys sorted."""
    for name in ("cargo", "boats"):
        world.sql(f"CREATE TABLE {name} (row STRING)")
        world.sql(f"INSERT INTO {name} VALUES ('{name}')")
    cargo_first, boats_first = (
        f"INSERT INTO arrivals SELECT row FROM {one} UNION ALL SELECT row FROM {other}"
        for one, other in (("cargo", "boats"), ("boats", "cargo"))
    )
    rows, number = ["boats", "cargo"], 0

    def append() -> None:
        nonlocal number
        number += 1
        for name in ("cargo", "boats"):
            world.sql(f"INSERT INTO {name} VALUES ('{name}{number}')")
            rows.append(f"{name}{number}")
        world.wait_rows(rows)

    def saved(text: str, folder: str, restored_from: str | None = None) -> str:
        """Run a job as the registry gives it back, and return its savepoint."""
        unprepared = world.definition(folder, text, restored_from=restored_from)
        prepared = world.engine.prepare(unprepared, folder)
        stored = StreamDefinition.from_json(json.loads(json.dumps(prepared.to_json(), sort_keys=True)))
        world.engine.start(folder, stored, 1)
        append()
        return world.engine.savepoint(folder, stored, world.folder(folder))

    first = saved(cargo_first, "1" * 32)
    same = saved(cargo_first, "2" * 32, first)
    other = saved(boats_first, "3" * 32, same)
    facts = Path(other, "savepoint.json")
    facts.with_name(".savepoint.json.crc").unlink()
    facts.write_text(
        json.dumps({key: each for key, each in json.loads(facts.read_text()).items() if key != SOURCES})
    )
    saved(cargo_first, "4" * 32, other)

    assert len(rows) == 10
    with pytest.raises(
        DefinitionInvalid, match=r"is of a job that reads .*boats, .*cargo; this one reads .*flights\."
    ):
        world.engine.prepare(world.definition("5" * 32, restored_from=first), "5" * 32)


@pytest.mark.slow
def test_a_savepoint_before_the_first_commit_of_a_source_has_nothing_twice_beside_a_printed_table(
    world: StreamWorld,
) -> None:
    world.append("a")
    texts = ("INSERT INTO arrivals SELECT * FROM flights", "INSERT INTO shown SELECT * FROM flights")
    temporary = ("CREATE TEMPORARY TABLE shown (row STRING) WITH ('connector' = 'print')",)
    job_id, definition = world.start(*texts, temporary=temporary)
    world.wait_rows(["a"])

    path = world.engine.savepoint(job_id, definition, world.folder("s"))
    world.append("b")
    world.start(*texts, temporary=temporary, restored_from=path)

    world.wait_rows(["a", "b"])


@pytest.mark.slow
def test_a_stream_with_a_plan_of_version_1_whose_checkpoint_was_deleted_waits_for_it(
    world: StreamWorld,
) -> None:
    world.append("a")
    job_id, definition = world.start()
    world.wait_rows(["a"])
    world.append("b")
    world.wait_rows(["a", "b"])
    world.engine.stop(job_id, definition)
    earlier = replace(definition, plan=replace(definition.planned, has_checkpoint=False))
    put_back = world.take_checkpoint(definition)

    world.engine.start(job_id, earlier, 2)

    progress = world.wait_end(job_id)
    world.engine.stop(job_id, earlier)
    assert (progress.missing, progress.final) == (True, False)
    assert f"checkpoint {definition.checkpoint} does not have: it was deleted or replaced." in (
        progress.error or ""
    )
    assert world.engine.missing(job_id, earlier) == progress.error
    put_back()
    world.append("c")
    world.engine.start(job_id, earlier, 3)
    world.wait_rows(["a", "b", "c"])


@pytest.mark.slow
def test_a_source_whose_unread_snapshots_have_expired_ends_the_stream_for_good(world: StreamWorld) -> None:
    world.append("a")
    job_id, definition = world.start()
    world.append("b")
    world.wait_rows(["a", "b"])
    world.engine.stop(job_id, definition)
    for row in "cd":
        world.append(row)
    table = f"{world.namespace}.flights"
    now = "TIMESTAMP '2100-01-01 00:00:00'"
    world.sql(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => {now}, retain_last => 1)")

    world.engine.start(job_id, definition, 2)

    progress = world.wait_end(job_id)
    assert progress.final
    assert "has expired" in str(progress.error)
    assert world.rows() == ["a", "b"]


@pytest.mark.slow
def test_generated_rows_are_printed_and_stored_in_one_stream(
    world: StreamWorld, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    database = sqlite3.connect(tmp_path / "outside.db")
    database.execute("CREATE TABLE paces (n INTEGER)")
    temporary = (
        "CREATE TEMPORARY TABLE pace (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20')",
        "CREATE TEMPORARY TABLE shown (n BIGINT) WITH ('connector' = 'print')",
        "CREATE TEMPORARY TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole')",
        "CREATE TEMPORARY TABLE outside (n INT) WITH ('connector' = 'jdbc', "
        f"'url' = 'jdbc:sqlite:{tmp_path}/outside.db', 'table-name' = 'paces')",
    )

    world.start(
        "INSERT INTO arrivals SELECT 'a' FROM pace",
        "INSERT INTO shown SELECT n FROM pace",
        "INSERT INTO nowhere SELECT n FROM pace",
        "INSERT INTO outside SELECT 1 FROM pace",
        temporary=temporary,
    )

    world.wait(lambda: any(record.getMessage().startswith("shown: +I[") for record in caplog.records))
    world.wait(lambda: database.execute("SELECT count(*) FROM paces").fetchone()[0] > 0)
    assert "a" in world.rows()
