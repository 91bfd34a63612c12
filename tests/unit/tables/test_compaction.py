"""Compaction of storage tables: in the background, in few files, and never at the cost of a refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from mt_core.errors import EngineError
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.continuous.source_watcher import SourceWatcher
from mt_core.tables.registry import in_transaction
from mt_core.tables.upkeep.compaction import compact
from mt_core.tables.upkeep.maintenance import maintain
from tests.support.manager_world import ManagerWorld
from tests.unit.tables.continuous_table import LIVE, LiveTable
from tests.unit.tables.test_applied_changes import ELEVEN, ORDERS, TOTALS, Totals


def fragment(
    world: ManagerWorld, table: TableIdentifier = TOTALS, *, files: int = 52, deletes: int = 0
) -> None:
    """Let the table have so many small files, which are one too many to be left alone."""
    storage = world.engine.storages[table]
    stored = storage.snapshots[storage.main]
    stored.facts = replace(stored.facts, data_files=files, delete_files=deletes)


def fragmented() -> Totals:
    world = Totals("incremental")
    fragment(world)
    return world


def compactions(world: ManagerWorld, name: str = "totals") -> list[RefreshRun]:
    table_id, kinds = world.table(name).table_id, [RunKind.COMPACTION]
    return in_transaction(world.registry, lambda tx: list(tx.runs.newest(table_id=table_id, kinds=kinds)))


def test_a_table_of_many_small_files_is_compacted_and_the_ledger_says_so() -> None:
    world = fragmented()
    before = world.rows("totals")

    done = maintain(world.services)

    assert done == ["compacted lake.default.totals: 51 small files, 0 delete files; 1 file since"]
    (run,) = compactions(world)
    assert (run.status, run.decision, run.rows) == (RunStatus.SUCCEEDED, "compact", 10)
    assert run.snapshot_id == world.engine.load(TOTALS).main
    assert world.rows("totals") == before
    assert world.engine.load(TOTALS).branches == {}
    assert maintain(world.services) == []


def test_a_table_of_many_delete_files_is_compacted() -> None:
    world = Totals("incremental")
    fragment(world, files=1, deletes=21)

    assert len(maintain(world.services)) == 1


@pytest.mark.parametrize(("files", "deletes"), [(51, 20), (1, 0)])
def test_a_table_of_few_small_files_is_left_alone(files: int, deletes: int) -> None:
    world = Totals("incremental")
    fragment(world, files=files, deletes=deletes)

    assert maintain(world.services) == []


def test_a_limit_of_zero_is_never_reached() -> None:
    world = fragmented()
    settings = replace(world.services.settings, compact_small_files=0, compact_delete_files=0)

    assert compact(replace(world.services, settings=settings), world.table("totals")) is None


def test_after_a_compaction_only_what_changed_is_applied_and_nothing_if_nothing_did() -> None:
    world = fragmented()
    maintain(world.services)

    unchanged = world.request()
    world.work()
    world.engine.commit(ORDERS, ELEVEN)
    world.refresh()

    assert world.run(unchanged.run_id).status is RunStatus.SKIPPED
    assert world.ways == ["append"]


def test_a_compaction_says_what_the_refresh_said_whose_snapshot_has_expired() -> None:
    world = fragmented()
    maintain(world.services)
    world.engine.expire(TOTALS, world.clock.now(), ())

    unchanged = world.request()
    world.work()

    assert world.run(unchanged.run_id).status is RunStatus.SKIPPED


def test_a_refresh_that_publishes_meanwhile_wins_at_its_first_try() -> None:
    world = fragmented()
    world.engine.commit(ORDERS, ELEVEN)
    run = world.request()
    world.engine.on_rewrite = lambda _table: world.work()

    done = compact(world.services, world.table("totals"))

    assert (world.succeeded(run).attempt, world.ways) == (1, ["append"])
    assert compactions(world) == [done]
    assert len(world.rows("totals")) == len(ELEVEN)


@pytest.mark.parametrize(
    "step", ["decide", "write", "staged", "publish: read", "publish: commit", "published"]
)
def test_a_compaction_at_any_step_of_a_refresh_neither_fails_nor_restarts_it(step: str) -> None:
    world = fragmented()
    world.engine.commit(ORDERS, ELEVEN)
    run = world.request()
    claimed = world.claim()
    assert claimed is not None

    for at in world.attempt(claimed):
        if at == step:
            compact(world.services, world.table("totals"))
            step = "done"

    assert world.succeeded(run).rows == 1
    assert world.ways == ["append"]


def test_a_compaction_that_fails_leaves_the_table_as_it_was() -> None:
    world = fragmented()
    main = world.engine.load(TOTALS).main
    world.engine.failing["rewrite_files"] = EngineError("disk full")

    assert maintain(world.services) == []

    assert (world.engine.load(TOTALS).main, world.engine.load(TOTALS).branches) == (main, {})


@pytest.mark.parametrize("landed", [True, False])
def test_a_compaction_whose_answer_is_lost_is_found_or_repeated(*, landed: bool) -> None:
    world = fragmented()
    world.engine.plan_lost_answer("publish", landed=landed)

    assert len(maintain(world.services)) == 1

    assert compactions(world)[0].snapshot_id == world.engine.load(TOTALS).main


def test_a_compaction_that_landed_keeps_its_files_though_it_was_reported_as_a_conflict() -> None:
    """Clients repeat a commit without an answer, and report that the repeated one has failed."""
    world = fragmented()
    world.engine.commit(ORDERS, ELEVEN)
    run = world.request()
    world.engine.plan_untrue_conflict("publish", then=world.work)

    done = compact(world.services, world.table("totals"))

    assert (world.succeeded(run).attempt, world.ways) == (1, ["append"])
    assert compactions(world) == [done]
    assert world.engine.discarded == []


def test_a_compaction_is_no_refresh_for_those_who_ask_how_fresh_a_table_is() -> None:
    world = fragmented()
    before = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    maintain(world.services)

    assert world.show("SHOW MATERIALIZED TABLES EXTENDED") == before
    (newest,) = world.show("SHOW REFRESHES FOR totals EXTENDED LIMIT 1")
    assert (newest["kind"], newest["reason"]) == (
        "COMPACTION",
        "51 small files, 0 delete files; 1 file since",
    )


def test_a_continuous_table_is_compacted_between_batches_each_sixtieth_of_them_at_most() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' SECOND")
    for number in range(130):
        world.append(100 + number)
        world.look(after=1)

    assert len(compactions(world, "live")) == 2
    assert set(world.ways) == {"append"}
    assert world.shows_its_source()
    assert [run.status for run in world.stretches()] == [RunStatus.RUNNING]


class Beside(LiveTable):
    """A continuous table of 59 batches, whose 60th leaves a compaction in `waiting`."""

    def __init__(self) -> None:
        super().__init__("FRESHNESS = INTERVAL '1' SECOND")
        self.waiting: list[Callable[[], None]] = []
        self.lookout = SourceWatcher(self.services, submit=lambda work: work(), beside=self.waiting.append)
        for number in range(62):
            self.append(100 + number)
            self.look(after=1)

    def compact(self, meanwhile: Callable[[], None]) -> None:
        """Carry out the compaction that waits; *meanwhile* happens while it writes."""
        self.engine.on_rewrite = lambda _table: meanwhile()
        self.waiting.pop()()
        self.engine.on_rewrite = None

    def batch(self) -> None:
        self.append(900)
        self.look(after=1)


def test_batches_go_on_beside_a_compaction_whose_files_then_take_the_place_of_the_old_ones() -> None:
    world = Beside()
    batches = len(world.ways)

    world.compact(meanwhile=world.batch)

    assert len(world.ways) == batches + 1
    (run,) = compactions(world, "live")
    assert run.snapshot_id == world.engine.load(LIVE).main
    assert world.engine.storages[LIVE].snapshots[str(run.snapshot_id)].facts.data_files < 10
    world.batch()
    assert world.shows_its_source()
    assert set(world.ways) == {"append"}
    assert [each.status for each in world.stretches()] == [RunStatus.RUNNING]


def test_a_batch_that_changes_what_is_written_anew_wins_and_the_next_compaction_is_between_batches() -> None:
    world = Beside()

    def delete() -> None:
        source = world.engine.sources[ORDERS]
        world.engine.commit(ORDERS, source.versions[source.current][1:])
        world.look(after=1)
        fragment(world, LIVE)

    world.compact(meanwhile=delete)
    assert compactions(world, "live") == []
    assert [each.data_files for each in world.engine.discarded] == [1]
    assert world.shows_its_source()
    for _ in range(60):
        world.batch()

    assert world.waiting == []
    assert len(compactions(world, "live")) == 1
    assert world.shows_its_source()


def suspend(world: Beside) -> None:
    world.sql("ALTER MATERIALIZED TABLE live SUSPEND")
    world.look(after=5)


def stop(world: Beside) -> None:
    world.lookout.end("the gateway stops")


def refresh(world: Beside) -> None:
    world.sql("ALTER MATERIALIZED TABLE live REFRESH")
    world.look(after=5)
    world.work()
    world.look(after=5)


@pytest.mark.parametrize(("end", "published"), [(suspend, 1), (stop, 1), (refresh, 0)])
def test_a_compaction_beside_batches_outlives_them_until_another_refresh_publishes(
    end: Callable[[Beside], None], published: int
) -> None:
    world = Beside()

    world.compact(meanwhile=lambda: end(world))

    assert len(compactions(world, "live")) == published
    assert world.engine.load(LIVE).branches == {}
    assert world.shows_its_source()


def test_a_compaction_beside_batches_leaves_nothing_of_a_table_that_is_dropped_meanwhile() -> None:
    world = Beside()

    def drop() -> None:
        world.sql("DROP MATERIALIZED TABLE live")
        world.look(after=5)

    world.compact(meanwhile=drop)

    assert LIVE not in world.engine.storages


def test_a_compaction_that_fails_leaves_nothing_though_batches_go_on() -> None:
    world = Beside()

    def fail() -> None:
        world.batch()
        raise EngineError("the disk is full")

    world.compact(meanwhile=fail)
    world.batch()

    assert world.engine.load(LIVE).branches == {}
    assert compactions(world, "live") == []
    assert world.shows_its_source()


def test_a_continuous_table_that_is_always_refreshed_loses_its_orphans_once_a_day() -> None:
    world = LiveTable()
    asked = []
    for _ in range(24):
        world.clock.advance(timedelta(hours=1))
        world.append(world.clock.now().hour)
        world.look()
        world.engine.failing["remove_orphans"] = EngineError("seen")
        maintain(world.services)
        if world.engine.failing.pop("remove_orphans", None) is None:
            asked.append(world.clock.now().hour)

    assert asked == [UUID(world.table("live").table_id).int % 24]
    assert world.engine.load(LIVE).main is not None


def test_what_a_compaction_leaves_whose_engine_was_lost_keeps_no_later_one_away() -> None:
    world = Beside()

    def lose() -> None:
        world.engine.away = True

    world.compact(meanwhile=lose)
    world.engine.away = False
    for _ in range(60):
        world.batch()
    world.compact(meanwhile=lambda: None)

    assert len(compactions(world, "live")) == 1
    assert [run.status for run in world.stretches()] == [RunStatus.RUNNING]
    assert world.shows_its_source()
