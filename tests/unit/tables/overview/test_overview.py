"""The overview follows the registry, reads only what has changed, and says when an answer may differ."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from mt_core.base.background import BackgroundLoop
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus, TableIdentifier, stream_job
from mt_core.tables.events import RunRequested, StepDone
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.lateness import State
from mt_core.tables.overview.overview import Overview, Progress
from mt_core.tables.registry import Transaction
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import HOUR, NOON, a_job, a_run, a_table

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


class ReadRegistry(MemoryRegistry):
    """A registry that notes of which tables an overview reads the runs, and no decisions are asked for."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.read: list[str] = []

    @contextmanager
    def reading(self) -> Iterator[Transaction]:  # type: ignore[override]
        with super().reading() as tx:
            newest_of_each = tx.runs.newest_of_each

            def noted(table_ids: list[str], *, limit: int) -> object:
                self.read += table_ids
                return newest_of_each(table_ids, limit=limit)

            tx.runs.newest_of_each = noted  # type: ignore[assignment, method-assign]
            yield tx


class World:
    """An overview of tables `lake.sales.<name>`."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOON)
        self.registry = ReadRegistry(self.clock)
        self.fresh_at: dict[str, datetime] = {}
        self.overview = Overview(self.registry, self.clock, self.fresh_at)

    def create(self, name: str, mode: RefreshMode = RefreshMode.FULL) -> MaterializedTable:
        table = a_table(name, created_at=self.clock.now(), status_at=self.clock.now())
        table = replace(table, definition=replace(table.definition, refresh_mode=mode))
        with self.registry.transaction() as tx:
            tx.tables.insert(table)
        return table

    def insert(self, run: RefreshRun) -> RefreshRun:
        with self.registry.transaction() as tx:
            tx.runs.insert(run)
        return run

    def refreshed(
        self,
        table: MaterializedTable,
        snapshot: str = "1",
        status: RunStatus = RunStatus.SUCCEEDED,
        **read: str,
    ) -> RefreshRun:
        """Insert a refresh of this moment that read these snapshots of tables."""
        now = self.clock.now()
        vector = tuple(
            {"name": f"lake.sales.{name}", "kind": "table", "version": {"snapshot": version}}
            for name, version in read.items()
        )
        return self.insert(
            a_run(
                table.table_id,
                status=status,
                requested_at=now,
                started_at=now,
                finished_at=now,
                snapshot_id=snapshot,
                vector=vector,
                error="no executor" if status is RunStatus.FAILED else None,
            )
        )

    def facts(self, name: str) -> TableFacts | None:
        """Return the facts about a table as a statement would show them now."""
        self.overview.catch_up()
        return self.overview.named(TableIdentifier("lake", ("sales",), name), self.overview.now())

    def state(self, name: str) -> State:
        facts = self.facts(name)
        assert facts is not None
        return facts.state

    def version(self) -> str:
        self.overview.catch_up()
        return self.overview.version(self.overview.now())


@pytest.fixture
def world() -> World:
    return World()


def test_there_are_no_facts_before_the_first_pass_which_reads_all_tables(world: World) -> None:
    for number in range(250):
        world.create(f"t{number:03}")
    before = (world.overview.facts(NOON), world.overview.progress)

    world.overview.catch_up()

    assert before == ((), Progress(read=0, total=0))
    assert world.overview.progress == Progress(read=250, total=250)
    names = [facts.identifier.name for facts in world.overview.facts(NOON)]
    assert names == [f"t{number:03}" for number in range(250)]


def test_a_pass_reads_only_the_tables_that_have_changed(world: World) -> None:
    tables = [world.create(name) for name in ("one", "two", "three")]
    world.overview.catch_up()
    world.registry.read.clear()

    world.overview.catch_up()
    unchanged = list(world.registry.read)
    world.refreshed(tables[1])
    world.overview.catch_up()

    assert (unchanged, world.registry.read) == ([], [tables[1].table_id])
    assert world.state("two") is State.OK


def test_a_dropped_table_is_gone_and_one_with_its_name_has_its_own_facts(world: World) -> None:
    table = world.create("daily")
    world.refreshed(table)
    was = world.state("daily")
    with world.registry.transaction() as tx:
        tx.tables.delete(table.table_id)
    gone = world.facts("daily")
    world.create("daily")

    assert (was, gone, world.state("daily")) == (State.OK, None, State.INITIALIZING)
    assert world.overview.table(table.table_id, NOON) is None


def test_a_refresh_of_a_table_changes_what_the_tables_above_it_show(world: World) -> None:
    low, high = world.create("low"), world.create("high")
    world.refreshed(low, "1")
    world.clock.advance(MINUTE)
    world.refreshed(high, low="1")
    shown = world.facts("high")
    world.clock.advance(MINUTE)
    world.refreshed(low, "1", RunStatus.SKIPPED)

    refreshed = world.facts("high")

    assert (shown and shown.shows, refreshed and refreshed.shows) == (NOON, NOON + MINUTE)


def test_the_version_that_a_table_shows_is_found_although_many_refreshes_followed_it(world: World) -> None:
    low, high = world.create("low"), world.create("high")
    world.refreshed(low, "0")
    world.clock.advance(MINUTE)
    world.refreshed(high, low="0")
    for number in range(1, 15):
        world.clock.advance(MINUTE)
        world.refreshed(low, str(number))

    facts = world.facts("high")

    assert facts is not None
    assert (facts.shows, facts.shows_by) == (NOON, low.identifier)


def test_the_last_success_is_found_behind_many_failures(world: World) -> None:
    table = world.create("daily")
    world.refreshed(table)
    for _ in range(30):
        world.clock.advance(SECOND)
        world.refreshed(table, status=RunStatus.FAILED)

    facts = world.facts("daily")

    assert facts is not None
    assert (facts.state, facts.shows) == (State.FAILING, NOON)
    assert facts.last is not None
    assert (facts.last.status, facts.last.error) == (RunStatus.FAILED, "no executor")


def test_the_last_failure_is_found_behind_many_answers_to_a_suspended_table(world: World) -> None:
    table = world.create("daily")
    world.refreshed(table)
    world.clock.advance(SECOND)
    world.refreshed(table, status=RunStatus.FAILED)
    for _ in range(30):
        run = a_run(table.table_id, status=RunStatus.SKIPPED, finished_at=NOON, decision="suspended")
        world.insert(run)

    facts = world.facts("daily")

    assert facts is not None
    assert (facts.state, facts.shows) == (State.FAILING, NOON)


def test_the_error_of_a_streaming_job_is_noticed_although_its_table_has_not_changed(world: World) -> None:
    table = world.create("clicks", RefreshMode.CONTINUOUS)
    with world.registry.transaction() as tx:
        definition = replace(table.definition, streams=("lake.sales.topic",))
        tx.tables.replace(replace(table, definition=definition))
        tx.jobs.insert(a_job(stream_job(table.table_id)))
    well = world.state("clicks")
    with world.registry.transaction() as tx:
        job = tx.jobs.get(stream_job(table.table_id))
        assert job is not None
        tx.jobs.replace(replace(job, error="no broker"))

    assert (well, world.state("clicks")) == (State.OK, State.FAILING)


# ---------------------------------------------------------------------------------------------------- version


def test_the_version_stays_while_nothing_changes_and_differs_in_another_process(world: World) -> None:
    world.refreshed(world.create("daily"))
    versions = {world.version()}
    for _ in range(10):
        world.clock.advance(MINUTE)
        versions.add(world.version())
    other = Overview(world.registry, world.clock, {})
    other.catch_up()

    assert len(versions) == 1
    assert other.version(other.now()) not in versions


def test_the_version_changes_with_each_change_and_each_turn(world: World) -> None:
    table = world.create("daily")
    seen = [world.version()]
    world.refreshed(table)
    seen.append(world.version())
    # The next schedule time passes at 13:00; the table is soon late from 13:48 on, and late at 14:00.
    for passed in (HOUR, 48 * MINUTE, 12 * MINUTE):
        world.clock.advance(passed - SECOND)
        seen.append(world.version())
        world.clock.advance(SECOND)
        seen.append(world.version())

    changes = [before != after for before, after in pairwise(seen)]

    assert changes == [True, False, True, False, True, False, True]
    assert world.state("daily") is State.LATE


def test_the_version_changes_every_few_seconds_while_sources_are_polled(world: World) -> None:
    table = world.create("often", RefreshMode.CONTINUOUS)
    world.refreshed(table)
    versions = []
    for _ in range(60):
        world.clock.advance(SECOND)
        world.fresh_at[table.table_id] = world.clock.now()
        versions.append(world.version())

    assert len(set(versions)) == 13
    facts = world.facts("often")
    assert facts is not None
    assert facts.shows == NOON + MINUTE


def test_a_continuous_table_is_late_as_soon_as_nobody_has_found_it_fresh_in_time(world: World) -> None:
    table = world.create("often", RefreshMode.CONTINUOUS)
    world.refreshed(table)
    world.fresh_at[table.table_id] = NOON + MINUTE
    world.version()
    world.clock.advance(HOUR + MINUTE - SECOND)
    before = (world.version(), world.state("often"))
    world.clock.advance(SECOND)

    after = (world.version(), world.state("often"))

    assert (before[1], after[1]) == (State.SOON, State.LATE)
    assert before[0] != after[0]


def test_facts_are_judged_again_after_the_clock_was_set_back(world: World) -> None:
    world.refreshed(world.create("daily"))
    world.clock.advance(3 * HOUR)
    late, version = world.state("daily"), world.version()

    world.clock.put(-2 * HOUR)

    assert (late, world.state("daily")) == (State.LATE, State.OK)
    assert world.version() != version


# ------------------------------------------------------------------------------------------------------- loop


def test_the_loop_looks_at_an_event_or_after_half_a_minute_and_ends_at_once(world: World) -> None:
    table = world.create("daily")
    loop = BackgroundLoop("overview", world.overview.keep_up, clock=world.clock)
    loop.start()
    assert world.clock.settle(threads="overview")
    world.clock.advance(SECOND)

    run = world.refreshed(table)
    world.overview.note(StepDone(run_id=run.run_id, table_id=table.table_id, step="write", seconds=1))
    assert world.clock.settle(threads="overview")
    unseen = world.overview.table(table.table_id, NOON)
    world.overview.note(RunRequested(run=run))
    assert world.clock.settle(threads="overview")
    seen = world.overview.table(table.table_id, NOON)
    world.refreshed(table, status=RunStatus.FAILED)
    world.clock.advance(SECOND)
    assert world.clock.settle(threads="overview")
    world.clock.advance(30 * SECOND)
    assert world.clock.settle(threads="overview")
    later = world.overview.table(table.table_id, NOON)
    loop.end()
    world.overview.end()

    assert loop.join(10)
    assert [each and each.state for each in (unseen, seen, later)] == [
        State.INITIALIZING,
        State.OK,
        State.FAILING,
    ]


def test_an_overview_that_followed_all_changes_equals_one_that_is_built_afterwards() -> None:
    for seed in range(25):
        _follow(random.Random(seed))


def _follow(dice: random.Random) -> None:
    world = World()
    names = ["a", "b", "c", "d"]
    for step in range(40):
        world.clock.advance(timedelta(seconds=dice.randrange(1, 300)))
        _change(world, dice, names)
        if step % 3 == 0:
            world.overview.catch_up()
            world.overview.facts(world.overview.now())
    world.overview.catch_up()
    afterwards = Overview(world.registry, world.clock, world.fresh_at)
    afterwards.catch_up()
    now = world.clock.now()

    assert world.overview.facts(now) == afterwards.facts(now)


def _change(world: World, dice: random.Random, names: list[str]) -> None:
    name = dice.choice(names)
    with world.registry.transaction() as tx:
        table = tx.tables.named(TableIdentifier("lake", ("sales",), name))
    if table is None:
        world.create(name, dice.choice(list(RefreshMode)))
        return
    match dice.randrange(20):
        case 0:
            with world.registry.transaction() as tx:
                tx.tables.delete(table.table_id)
        case 1:
            with world.registry.transaction() as tx:
                status = dice.choice([RefreshStatus.ACTIVATED, RefreshStatus.SUSPENDED])
                tx.tables.replace(replace(table, status=status, status_at=world.clock.now()))
        case 2 | 3 | 4:
            world.fresh_at[table.table_id] = world.clock.now()
        case _:
            below = dice.choice(names[: names.index(name) + 1])
            status = dice.choice([RunStatus.SUCCEEDED, RunStatus.SKIPPED, RunStatus.FAILED])
            world.refreshed(table, str(dice.randrange(2)), status, **{below: str(dice.randrange(2))})


def test_readers_see_complete_passes_while_others_write(world: World) -> None:
    tables = [world.create(f"t{number}") for number in range(20)]
    world.overview.catch_up()
    stop, errors = threading.Event(), list[BaseException]()

    def read() -> None:
        try:
            while not stop.is_set():
                world.overview.catch_up()
                assert len(world.overview.facts(world.overview.now())) == 20
                world.overview.version(world.overview.now())
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for table in tables * 3:
        world.refreshed(table)
    stop.set()
    for thread in threads:
        thread.join(10)

    assert errors == []
    assert {world.state(f"t{number}") for number in range(20)} == {State.OK}
