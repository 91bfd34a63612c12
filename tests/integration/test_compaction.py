"""Compaction of real storage tables, and the refresh that applies a change to a compacted one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.tables.continuous import continuous_run
from mt_core.tables.continuous.source_watcher import SourceWatcher
from mt_core.tables.engine import Fragments, Staged
from mt_core.tables.registry import in_transaction
from mt_core.tables.upkeep.compaction import compact
from tests.integration.follower import Follower
from tests.integration.maintained_world import INCREMENTAL
from tests.integration.refresh_world import RefreshWorld

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def world(spark_driver: SparkDriver) -> Iterator[RefreshWorld]:
    """A table `mt` that shows `o`, to which four refreshes have each added a file."""
    made = RefreshWorld(spark_driver)
    made.spark("CREATE TABLE o (k INT, v STRING) USING iceberg", "INSERT INTO o VALUES (0, 'a')")
    made.create("mt", "SELECT k, v FROM o", clauses=INCREMENTAL)
    for number in range(4):
        append(made, number)
    return made


@pytest.fixture
def follower(spark_driver: SparkDriver) -> Follower:
    return Follower(RefreshWorld(spark_driver))


def append(world: RefreshWorld, number: int) -> RefreshRun:
    world.spark(f"INSERT INTO o VALUES ({number}, 'b')")
    return world.tick("mt")


def compacted(world: RefreshWorld) -> RefreshRun | None:
    settings = replace(world.services.settings, compact_small_files=3, compact_delete_files=3)
    return compact(replace(world.services, settings=settings), world.table("mt"))


def data_files(world: RefreshWorld) -> int:
    return len(world.plain(f"SELECT file_path FROM {world.table('mt').identifier.sql}.files"))


def test_a_compacted_table_has_its_rows_in_one_file_and_takes_what_changes(world: RefreshWorld) -> None:
    rows = world.rows("mt")

    run = compacted(world)

    assert run is not None
    assert (run.reason, run.rows) == ("4 small files, 0 delete files; 1 file since", 5)
    assert (data_files(world), world.rows("mt")) == (1, rows)
    assert world.tick("mt").status is RunStatus.SKIPPED
    assert append(world, 9).strategy == "append"
    assert (data_files(world), world.rows("mt")) == (2, world.plain("SELECT * FROM o"))
    assert compacted(world) is None


def test_a_compaction_between_the_steps_of_a_refresh_costs_the_refresh_nothing(world: RefreshWorld) -> None:
    world.spark("INSERT INTO o VALUES (9, 'c')")
    done: list[object] = []

    table = world.table("mt").identifier.sql
    procedure = (
        f"CALL lake.system.rewrite_data_files(table => '{table.replace('`', '')}', "
        "options => map('rewrite-all', 'true'))"
    )
    work = world.work
    world.work = lambda: work(  # type: ignore[method-assign]
        before="publish: commit", do=lambda: done.append(world.spark(procedure))
    )
    run = world.tick("mt")

    assert (run.status, run.strategy, run.rows, len(done)) == (RunStatus.SUCCEEDED, "append", 1, 1)
    assert world.rows("mt") == world.plain("SELECT * FROM o")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2", "3"])
def test_deletes_are_carried_out_and_those_left_behind_do_not_count(
    world: RefreshWorld, version: str
) -> None:
    modes = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("delete", "update", "merge"))
    world.create("deleted", "SELECT * FROM o", clauses=f"WITH ('format-version' = '{version}', {modes})")
    identifier = world.table("deleted").identifier
    world.spark(f"INSERT INTO {identifier.sql} SELECT CAST(id AS INT), 'd' FROM range(100, 200)")
    world.spark(*(f"DELETE FROM {identifier.sql} WHERE k = {100 + number}" for number in range(4)))
    rows = world.rows("deleted")
    assert world.engine.housekeeping.fragments(identifier).delete_files > 0
    settings = replace(world.services.settings, compact_small_files=1)

    assert compact(replace(world.services, settings=settings), world.table("deleted")) is not None

    assert world.rows("deleted") == rows
    assert world.engine.housekeeping.fragments(identifier) == Fragments(small_files=0, delete_files=0)


class Compacted:
    """A follower whose tables are compacted after each fourth batch, when the test says so."""

    def __init__(self, follower: Follower, monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
        monkeypatch.setattr(continuous_run, "COMPACT_BATCHES", 4)
        self._follower, self._world, self._monkeypatch = follower, follower.world, monkeypatch
        self._waiting: list[Callable[[], None]] = []
        services = replace(self._world.services, settings=replace(self._world.services.settings, **limits))
        follower.lookout = SourceWatcher(services, submit=lambda work: work(), beside=self._waiting.append)

    def carry_out_beside(self, statement: str) -> None:
        """Carry out the compaction that was asked for; a batch with the rows of *statement* comes before
        it is published.
        """
        rewrite = self._world.engine.housekeeping.rewrite_files

        def meanwhile(identifier: TableIdentifier, job_id: str) -> Staged | None:
            staged = rewrite(identifier, job_id)
            self._follower.step(statement)
            return staged

        self._monkeypatch.setattr(self._world.engine.housekeeping, "rewrite_files", meanwhile)
        self._waiting.pop()()

    def count(self, name: str) -> int:
        """Return how many compactions of a table there were."""
        table_id, kinds = self._world.table(name).table_id, [RunKind.COMPACTION]
        return len(
            in_transaction(
                self._world.registry, lambda tx: list(tx.runs.newest(table_id=table_id, kinds=kinds))
            )
        )


@pytest.mark.slow
def test_batches_of_a_continuous_table_go_on_while_it_is_compacted(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    compactions, world = Compacted(follower, monkeypatch, compact_small_files=3), follower.world
    follower.follow("dear", "SELECT city, amount FROM orders WHERE amount > 1")
    for amount in range(2, 8):
        follower.step(f"INSERT INTO orders VALUES ('Rome', {amount})")

    compactions.carry_out_beside("INSERT INTO orders VALUES ('Bern', 9)")
    follower.step("INSERT INTO orders VALUES ('Oslo', 9)")

    assert compactions.count("dear") == 1
    assert world.rows("dear") == world.plain("SELECT * FROM orders WHERE amount > 1")
    assert set(follower.strategies("dear")) == {"append"}
    assert len(world.plain(f"SELECT file_path FROM {world.table('dear').identifier.sql}.files")) == 3


@pytest.mark.slow
def test_batches_that_delete_by_keys_go_on_while_their_table_is_compacted(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    compactions = Compacted(follower, monkeypatch, compact_delete_files=3)
    world, query = follower.world, "SELECT city, median(amount) AS middle FROM orders GROUP BY city"
    world.spark("INSERT INTO orders SELECT uuid(), CAST(id AS INT) FROM range(20000)")
    follower.follow("totals", query, options="'write.upsert' = 'equality-delete'")
    for amount in range(2, 8):
        follower.step(f"INSERT INTO orders VALUES ('Rome', {amount}), (NULL, 1)")

    compactions.carry_out_beside("INSERT INTO orders VALUES ('Rome', 9), ('Bern', 9)")

    by_key = f"SELECT content FROM {world.table('totals').identifier.sql}.delete_files"
    assert (compactions.count("totals"), world.plain(by_key)) == (1, [(2,)])
    assert world.rows("totals") == world.plain(query)
    follower.step("INSERT INTO orders VALUES ('Rome', 9), ('Oslo', 9)")
    assert (world.rows("totals"), set(follower.strategies("totals"))) == (world.plain(query), {"stages"})
