"""Tables of refresh mode CONTINUOUS: the look-out publishes what changed in their sources,
batch after batch.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, pairwise

import pytest

from mt_core.clock import SystemClock
from mt_core.errors import EngineUnavailable, TableBusy
from mt_core.model.partition import PartitionSpec
from mt_core.model.run import RunKind, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus
from mt_core.tables.continuous.workers import ContinuousWorkers
from tests.unit.tables.continuous_table import LIVE, ORDERS, TEN, LiveTable, ProcessEnded

STEPS = (
    "decide",
    "write",
    "staged",
    "publish: read",
    "publish: commit",
    "published",
)


# ----------------------------------------------------------------------------------------------------- CREATE


@pytest.mark.parametrize(
    "clauses",
    ["", "FRESHNESS = INTERVAL '1' SECOND", "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = CONTINUOUS"],
)
def test_a_table_is_continuous_by_its_freshness_or_as_declared_and_filled_by_create(clauses: str) -> None:
    world = LiveTable(clauses)

    assert world.table("live").definition.refresh_mode is RefreshMode.CONTINUOUS
    assert [(run.kind, run.status) for run in world.runs("live")] == [(RunKind.INITIAL, RunStatus.SUCCEEDED)]
    assert world.shows_its_source()


def test_a_continuous_table_has_no_workflow_in_the_scheduler() -> None:
    assert LiveTable().scheduler.workflows == {}


def test_create_says_when_a_table_will_be_computed_as_a_whole_and_why() -> None:
    world = LiveTable()
    clauses = "WITH ('refresh.strategy' = 'full') FRESHNESS = INTERVAL '10' SECOND"
    text = f"CREATE MATERIALIZED TABLE whole {clauses} AS SELECT * FROM orders"

    (warning,) = world.sql(text).warnings
    world.engine.unstable = "current_date() changes by itself"
    (unstable,) = world.sql("CREATE MATERIALIZED TABLE today AS SELECT * FROM orders").warnings

    assert (
        "computes all rows after each change of a source, at most once within 10 seconds: "
        "its 'refresh.strategy'"
    ) in warning
    assert (
        unstable == "lake.default.today computes all rows every 3 minutes: current_date() changes by itself."
    )
    assert world.sql("ALTER MATERIALIZED TABLE live SUSPEND").warnings == ()


def test_date_formatters_mean_nothing_to_a_continuous_table_but_are_checked_and_kept() -> None:
    world = LiveTable("PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')")
    world.append(10)

    world.look()

    definition = world.table("live").definition
    assert (definition.date_formatters, definition.declared_formatters) == ({}, {"ds": "yyyy-MM-dd"})
    assert world.shows_its_source()


# ---------------------------------------------------------------------------------------------------- batches


def test_what_changed_is_published_at_the_next_look_as_what_changed() -> None:
    world = LiveTable()
    world.look()
    world.append(10)

    world.look(after=5)

    assert world.shows_its_source()
    assert world.ways == ["append"]


def test_nothing_is_written_while_nothing_changes() -> None:
    world = LiveTable()
    writes = world.engine.writes

    for _ in range(100):
        world.look(after=1)

    assert world.engine.writes == writes
    assert len(world.stretches()) == 1, (
        "the look after the start finds out that nothing changed, the others know it"
    )


def test_batches_of_one_stretch_share_its_claim_and_its_branch() -> None:
    world = LiveTable()
    for amount in range(10, 15):
        world.append(amount)
        world.look(after=5)

    (stretch,) = world.stretches()
    assert (stretch.status, stretch.batches, stretch.rows) == (RunStatus.RUNNING, 5, 5)
    assert [batch.number for batch in stretch.recent] == [1, 2, 3, 4, 5]
    assert {batch.strategy for batch in stretch.recent} == {"append"}
    assert world.shows_its_source()


# --------------------------------------------------------------------------------------------- broken sources

ITEMS = "lake.default.items"


def two_tables() -> LiveTable:
    """Return a world with the table `live` over `orders`, and `other` over `items`, both followed."""
    world = LiveTable()
    world.engine.create_source(ITEMS, TEN)
    world.sql("CREATE MATERIALIZED TABLE other FRESHNESS = INTERVAL '10' SECOND AS SELECT * FROM items")
    world.work()
    world.look()
    return world


def test_a_source_that_cannot_be_read_holds_up_no_table_over_another_one() -> None:
    world = two_tables()
    world.engine.unread[ITEMS] = "metadata file /t/00002.metadata.json cannot be read"

    for amount in range(10, 20):
        world.append(amount)
        world.look(after=5)
        assert world.shows_its_source()

    failed = [run for run in world.runs("other") if run.status is RunStatus.FAILED]
    assert "00002.metadata.json" in (failed[0].error or "")
    assert {run.status for run in world.stretches()} == {RunStatus.RUNNING}


def test_a_source_that_cannot_be_read_is_looked_at_after_growing_pauses_of_its_own() -> None:
    world = two_tables()
    world.engine.unread[ITEMS] = "torn"
    looks: list[int] = []

    for _ in range(1200):
        before = world.engine.looked_at.count(ITEMS)
        world.look(after=1)
        if world.engine.looked_at.count(ITEMS) > before:
            looks.append(int(world.clock.now().timestamp()))

    pauses = [later - earlier for earlier, later in pairwise(looks)]
    assert pauses[1:] == [10, 20, 40, 80, 160, 300, 300]
    assert len([run for run in world.runs("other") if run.status is RunStatus.FAILED]) < 12
    assert world.engine.looked_at.count(ORDERS) > 200


def test_a_source_that_can_be_read_again_is_followed_at_once() -> None:
    world = two_tables()
    world.engine.unread[ITEMS] = "torn"
    for _ in range(100):
        world.look(after=1)
    del world.engine.unread[ITEMS]
    world.engine.commit(ITEMS, [*TEN, {"ds": "2026-03-02", "amount": 10}])

    # The next look after its pause, which a commit that the engine heard of ends.
    world.lookout.notify(ITEMS)
    world.look(after=1)

    assert len(world.rows("other")) == 11
    world.look(after=10)
    world.engine.commit(ITEMS, TEN)
    world.look(after=10)
    assert len(world.rows("other")) == 10


def test_a_source_that_does_not_answer_yet_is_asked_again_without_a_batch() -> None:
    world = two_tables()
    world.engine.unread[ITEMS] = ""
    runs = len(world.runs("other"))

    for amount in range(10, 15):
        world.append(amount)
        world.look(after=5)
        assert world.shows_its_source()

    assert len(world.runs("other")) == runs
    assert world.engine.looked_at.count(ITEMS) > 5


# ------------------------------------------------------------------------------------------------------- pace


def test_batches_begin_at_most_twice_within_the_freshness() -> None:
    world = LiveTable()
    for amount in range(10, 40):
        world.append(amount)
        world.look(after=1)

    (stretch,) = world.stretches()
    begins = [batch.began_at for batch in stretch.recent]
    assert all(later - earlier >= timedelta(seconds=5) for earlier, later in pairwise(begins))
    assert len(begins) == 6


def test_a_change_is_shown_within_the_freshness_while_its_source_never_rests() -> None:
    world = LiveTable()
    for amount in range(10, 40):
        world.append(amount)
        world.look(after=1)

    newest = max(row["amount"] for row in world.rows("live"))  # type: ignore[type-var]
    assert newest >= 30  # type: ignore[operator]


def test_a_table_that_computes_all_rows_does_so_at_most_once_within_the_freshness() -> None:
    world = LiveTable("WITH ('refresh.strategy' = 'full') FRESHNESS = INTERVAL '10' SECOND")
    world.look()
    for amount in range(1, 11):
        world.append(amount)
        world.look(after=2)

    assert world.ways == ["recompute", "recompute"]


def test_a_source_without_versions_is_recomputed_once_within_the_freshness() -> None:
    world = LiveTable()
    world.engine.unstable = "current_date()"

    for _ in range(30):
        world.look(after=1)

    assert world.ways == ["recompute"] * 3


def test_a_stretch_ends_after_a_minute_without_changes_and_leaves_no_branch() -> None:
    world = LiveTable()
    world.append(10)
    world.look()

    world.look(after=61)

    (stretch,) = world.stretches()
    assert stretch.status is RunStatus.SUCCEEDED
    assert stretch.reason is not None
    assert stretch.reason.endswith("ended: nothing changed for a minute")
    assert world.engine.load(LIVE).branches == {}


def test_a_stretch_lasts_an_hour_at_most() -> None:
    world = LiveTable()
    for amount in range(10, 140):
        world.append(amount)
        world.look(after=30)

    first, second = world.stretches()
    assert (first.status, second.status) == (RunStatus.SUCCEEDED, RunStatus.RUNNING)
    assert world.shows_its_source()


def test_show_materialized_tables_says_how_stale_a_table_is_of_which_nothing_changed() -> None:
    world = LiveTable()
    world.look()
    world.look(after=300)

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert (row["refresh mode"], row["stale for"], row["health"]) == ("CONTINUOUS", "0 s", "OK")


def test_a_table_behind_its_freshness_is_late() -> None:
    world = LiveTable()
    world.look()
    world.clock.advance(timedelta(seconds=300))

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert (row["stale for"], row["health"]) == ("5 min", "LATE")


def test_a_table_is_late_after_a_restart_because_no_gateway_looked_and_not_for_want_of_a_worker() -> None:
    world = LiveTable()
    world.append(10)
    world.look()
    world.clock.advance(timedelta(seconds=300))
    (before,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    world.restart()
    (down,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    world.look()
    world.look(after=1)
    (up,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert (before["late by"], down["late by"]) == ("4 min (queue)", "4 min (schedule)")
    assert "(queue)" not in str(up["late by"])


def test_show_refreshes_says_what_a_stretch_published_and_its_batches() -> None:
    world = LiveTable()
    for amount in (10, 11):
        world.append(amount)
        world.look(after=5)

    run = world.show("SHOW REFRESHES FOR live EXTENDED")[0]
    batches = world.show("SHOW REFRESHES FOR live BATCHES")

    assert (run["kind"], run["status"], run["rows"], run["rows inserted"]) == ("CONTINUOUS", "RUNNING", 2, 2)
    assert str(run["reason"]).startswith("2 batches; lake.default.orders changed")
    assert [(batch["batch"], batch["strategy"], batch["rows"], batch["bytes read"]) for batch in batches] == [
        (2, "append", 1, 1),
        (1, "append", 1, 1),
    ]
    assert run["bytes read"] == 2
    assert world.show("SHOW REFRESHES FOR live BATCHES LIMIT 1") == batches[:1]


def test_show_materialized_tables_says_when_the_last_batch_was_published() -> None:
    world = LiveTable()
    world.append(10)
    world.look(after=3600)

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert (row["last refresh"], row["last result"]) == ("2026-03-01 13:00:00", "RUNNING")


def test_old_snapshots_are_deleted_between_batches_once_a_minute() -> None:
    world = LiveTable()
    expired: list[datetime] = []
    world.engine.expire = (  # type: ignore[method-assign]
        lambda _identifier, older_than, _keep: expired.append(older_than)
    )
    for amount in range(10, 30):
        world.append(amount)
        world.look(after=10)

    assert len(expired) == 3
    assert {world.clock.now() - instant < timedelta(hours=1, minutes=4) for instant in expired} == {True}


def test_no_more_snapshots_than_those_of_the_last_500_batches_are_kept() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' SECOND")
    expired: list[datetime] = []
    world.engine.expire = (  # type: ignore[method-assign]
        lambda _identifier, older_than, _keep: expired.append(older_than)
    )
    for amount in range(10, 611):
        world.append(amount)
        world.look(after=1)

    assert world.clock.now() - expired[0] > timedelta(minutes=60)
    assert timedelta(seconds=495) < world.clock.now() - expired[-1] < timedelta(seconds=560)


# -------------------------------------------------------------------------------------------------- gives way


def test_a_refresh_by_hand_runs_between_two_batches_and_recomputes() -> None:
    world = LiveTable()
    world.append(10)
    world.look()
    run = world.sql("ALTER MATERIALIZED TABLE live REFRESH").wait_for or ""

    world.look()
    world.work()
    world.append(11)
    world.look(after=5)

    assert world.run(run).status is RunStatus.SUCCEEDED
    assert world.ways == ["append", "recompute", "append"]
    assert world.shows_its_source()


def test_a_refresh_by_hand_of_one_partition_runs_between_two_batches_and_leaves_the_others_to_them() -> None:
    world = LiveTable("PARTITIONED BY (ds) FRESHNESS = INTERVAL '10' SECOND")
    world.append(10)
    world.look()
    world.append(11)
    run = world.sql("ALTER MATERIALIZED TABLE live REFRESH PARTITION (ds = '2026-03-02')").wait_for or ""

    world.look()
    world.work()
    shown = world.shows_its_source()
    world.append(12)
    world.look(after=10)

    refreshed = world.run(run)
    assert (refreshed.status, refreshed.scope.specs, shown) == (
        RunStatus.SUCCEEDED,
        {PartitionSpec.of({"ds": "2026-03-02"})},
        True,
    )
    assert world.shows_its_source()


def test_a_tick_of_a_workflow_that_is_gone_is_skipped() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = CONTINUOUS")

    run = world.tick(world.latest_point("live"), "live")

    assert (run.status, run.decision) == (RunStatus.SKIPPED, "continuous")


def test_a_suspended_table_publishes_nothing_until_it_is_resumed_and_goes_on_from_what_it_shows() -> None:
    world = LiveTable()
    world.append(10)
    world.look()
    world.sql("ALTER MATERIALIZED TABLE live SUSPEND")
    world.append(11)
    world.look(after=100)
    assert not world.shows_its_source()

    world.sql("ALTER MATERIALIZED TABLE live RESUME")
    world.look(after=1)

    assert world.shows_its_source()
    assert world.ways == ["append", "append"]


def test_another_query_rebuilds_the_table_and_goes_on() -> None:
    world = LiveTable()
    world.engine.create_source("lake.default.others", [{"ds": "2026-03-05", "amount": 5}])
    world.look()
    world.sql("ALTER MATERIALIZED TABLE live AS SELECT * FROM others")
    world.look()
    world.work()
    assert world.rows("live") == [{"ds": "2026-03-05", "amount": 5}]

    world.engine.commit(
        "lake.default.others", [{"ds": "2026-03-05", "amount": 5}, {"ds": "2026-03-06", "amount": 6}]
    )
    world.look(after=5)

    assert world.rows("live") == [{"ds": "2026-03-05", "amount": 5}, {"ds": "2026-03-06", "amount": 6}]
    assert world.ways == ["recompute", "append"]


def test_drop_ends_the_stretch_and_leaves_nothing() -> None:
    world = LiveTable()
    world.append(10)
    world.look()

    world.sql("DROP MATERIALIZED TABLE live")
    world.look(after=1)

    assert (world.engine.storages, world.state()["tables"], world.state()["tombstones"]) == ({}, [], [])
    assert world.stretches_of_all() == [RunStatus.SUCCEEDED]


# ------------------------------------------------------------------------------------------------------ modes


def test_a_table_that_becomes_full_gets_a_workflow_with_a_grid_from_now() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = CONTINUOUS")
    world.append(10)
    world.look()
    world.clock.advance(timedelta(hours=5))

    world.sql("ALTER MATERIALIZED TABLE live SET REFRESH_MODE = FULL")
    world.look()
    world.append(11)
    world.look(after=100)
    assert not world.shows_its_source()
    run = world.tick(world.latest_point("live"), "live")
    world.work()

    assert world.table("live").covered_until >= world.clock.now() - timedelta(seconds=200)
    assert list(world.scheduler.workflows) == [world.table("live").table_id]
    assert world.run(run.run_id).status is RunStatus.SUCCEEDED
    assert world.shows_its_source()


def test_a_table_that_becomes_continuous_leaves_its_workflow_and_goes_on_from_what_it_shows() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL")
    assert len(world.scheduler.workflows) == 1

    world.sql("ALTER MATERIALIZED TABLE live SET REFRESH_MODE = CONTINUOUS")
    world.append(10)
    world.look()

    assert world.scheduler.workflows == {}
    assert world.shows_its_source()
    assert world.ways == ["append"]


@pytest.mark.parametrize(
    ("before", "after", "mode"), [("1' HOUR", "1' MINUTE", "CONTINUOUS"), ("1' MINUTE", "1' HOUR", "FULL")]
)
def test_a_freshness_across_the_threshold_flips_a_derived_mode(before: str, after: str, mode: str) -> None:
    world = LiveTable(f"FRESHNESS = INTERVAL '{before}")

    world.sql(f"ALTER MATERIALIZED TABLE live SET FRESHNESS = INTERVAL '{after}")

    assert world.table("live").definition.refresh_mode is RefreshMode(mode)
    assert len(world.scheduler.workflows) == (mode == "FULL")


def test_a_freshness_across_the_threshold_keeps_a_declared_mode() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL")

    world.sql("ALTER MATERIALIZED TABLE live SET FRESHNESS = INTERVAL '1' MINUTE")

    assert world.table("live").definition.refresh_mode is RefreshMode.FULL


def test_create_or_alter_changes_the_mode_with_the_freshness() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' HOUR")

    world.sql(
        "CREATE OR ALTER MATERIALIZED TABLE live FRESHNESS = INTERVAL '1' MINUTE AS SELECT * FROM orders"
    )
    world.append(10)
    world.look()

    assert (world.scheduler.workflows, world.shows_its_source()) == ({}, True)


# ----------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("step", [*STEPS, "idle"])
def test_a_process_that_ends_at_any_step_of_a_batch_loses_and_doubles_nothing(step: str, number: int) -> None:
    world = LiveTable()
    world.append(10)
    if number == 2:
        world.look()
        world.append(11)
    world.ends_before = step

    with pytest.raises(ProcessEnded):
        world.look(after=5)
    world.ends_before = None
    world.restart()
    world.recover()
    world.append(12)
    world.look()
    world.append(13)
    world.look(after=5)

    assert world.shows_its_source()
    assert {run.status for run in world.stretches()} <= {RunStatus.CANCELED, RunStatus.RUNNING}
    assert set(world.ways) == {"append"}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_without_an_answer_publishes_each_batch_once(landed: bool, number: int) -> None:
    world = LiveTable()
    world.append(10)
    if number == 2:
        world.look()
        world.append(11)
    world.engine.plan_lost_answer("publish", landed=landed)

    world.look(after=5)
    world.append(12)
    world.look(after=5)

    (stretch,) = world.stretches()
    assert (stretch.batches, world.shows_its_source()) == (number + 1, True)


class Zombie:
    """A continuous run of `live`, stopped before its first publish, whose lease has expired since."""

    def __init__(self, world: LiveTable) -> None:
        self._world = world
        self.steps = world.continuous_run()
        for step in self.steps:
            if step == "publish: commit":
                break
        world.clock.advance(timedelta(seconds=61))
        assert world.ledger.recover() == 1

    def goes_on(self) -> None:
        for _ in self.steps:
            pass


def test_a_batch_of_a_run_that_was_taken_for_lost_is_found_by_the_next_run() -> None:
    world = LiveTable()
    world.append(10)
    zombie = Zombie(world)

    zombie.goes_on()
    world.append(11)
    world.look(after=5)

    assert world.shows_its_source()
    assert [run.status for run in world.stretches()] == [RunStatus.CANCELED, RunStatus.RUNNING]


def test_a_run_that_was_taken_for_lost_does_not_publish_after_the_next_run_found_nothing_changed() -> None:
    world = LiveTable()
    before = world.engine.sources[ORDERS].current
    world.append(10)
    zombie = Zombie(world)
    world.engine.roll_back(ORDERS, before)

    world.look(after=5)
    zombie.goes_on()

    assert world.shows_its_source()
    closing = world.engine.storages[LIVE].snapshots[world.engine.storages[LIVE].main].facts
    assert (closing.replace, closing.added_rows) == (True, 0)
    world.look(after=400)
    world.look(after=400)
    assert world.engine.storages[LIVE].main == closing.snapshot_id, "the table is closed once"


def test_a_run_whose_predecessor_ended_by_itself_commits_nothing_if_nothing_has_changed() -> None:
    world = LiveTable()
    world.append(10)
    world.look(after=5)
    world.look(after=400)
    main = world.engine.storages[LIVE].main

    world.restart()
    world.recover()
    world.look(after=5)

    assert world.engine.storages[LIVE].main == main


def test_a_lost_engine_ends_the_stretch_without_a_failure_and_the_next_one_goes_on() -> None:
    world = LiveTable()
    world.append(10)
    world.when_writing(lambda: (_ for _ in ()).throw(EngineUnavailable("away")))
    world.look()

    world.look(after=5)

    assert [run.status for run in world.stretches()] == [RunStatus.CANCELED, RunStatus.RUNNING]
    assert world.shows_its_source()


def test_a_batch_that_fails_is_tried_again_with_longer_and_longer_pauses() -> None:
    world = LiveTable()
    world.look()
    world.append(10)
    world.engine.poisoned = {PartitionSpec.of({"ds": "2026-03-02"})}

    for _ in range(100):
        world.look(after=1)
    world.engine.poisoned = set()
    world.look(after=400)

    failed = [run for run in world.stretches() if run.status is RunStatus.FAILED]
    ends = [run.finished_at for run in failed if run.finished_at is not None]
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(ends)]
    assert pauses == [10, 20, 40]
    assert world.shows_its_source()


def test_a_table_whose_batches_fail_five_times_in_a_row_is_suspended_with_the_reason() -> None:
    world = LiveTable()
    world.append(10)
    world.engine.poisoned = {PartitionSpec.of({"ds": "2026-03-02"})}

    for _ in range(1000):
        world.look(after=1)

    table = world.table("live")
    assert (table.status, table.status_by) == (RefreshStatus.SUSPENDED, "5 failed batches in a row")
    assert [run.status for run in world.stretches()] == [RunStatus.FAILED] * 5
    world.engine.poisoned = set()
    world.sql("ALTER MATERIALIZED TABLE live RESUME")
    world.look()
    assert world.shows_its_source()


def test_a_catalog_that_is_away_suspends_no_table() -> None:
    world = LiveTable()
    world.append(10)
    for _ in range(2000):
        world.engine.failing["write"] = RuntimeError("the object store is away")
        world.look(after=1)
    world.engine.failing.clear()
    world.look(after=300)

    assert world.table("live").status is RefreshStatus.ACTIVATED
    assert world.shows_its_source()


def test_a_continuous_refresh_is_a_job_from_create_to_suspend_and_a_new_one_after_resume() -> None:
    world = LiveTable()
    (first,) = world.manager.requests.continuous_jobs()
    world.append(10)
    world.look()
    assert (first.table, world.manager.requests.running_jobs()) == (LIVE, [])

    world.manager.requests.stop_continuous(first)
    assert (world.manager.requests.continuous_jobs(), world.table("live").status_by) == ([], "STOP JOB")
    world.clock.advance(timedelta(seconds=1))
    world.sql("ALTER MATERIALIZED TABLE live RESUME")

    (second,) = world.manager.requests.continuous_jobs()
    assert second.job_id != first.job_id
    world.look()
    world.append(11)
    world.look(after=300)
    runs = [run for run in world.show("SHOW REFRESHES FOR live EXTENDED") if run["kind"] == "CONTINUOUS"]
    assert [run["job"] for run in runs] == [second.job_id, first.job_id]


def test_the_savepoint_of_a_stopped_job_is_the_snapshot_that_its_last_batch_has_published() -> None:
    world = LiveTable()
    (job,) = world.manager.requests.continuous_jobs()
    world.append(10)
    world.look()

    world.manager.requests.stop_continuous(job)
    with pytest.raises(TableBusy, match="is SUSPENDED, but its last batch is still running"):
        world.manager.requests.last_version(job, timeout_s=0)
    world.look(after=1)

    (batch,) = world.stretches()[-1].recent
    assert world.manager.requests.last_version(job, timeout_s=0) == batch.snapshot_id


def test_a_batch_that_breaks_in_the_gateway_itself_is_tried_again_after_a_pause() -> None:
    world = LiveTable()
    world.look()
    world.append(10)
    world.ends_before = "decide"
    tries = 0
    for _ in range(30):
        try:
            world.look(after=1)
        except ProcessEnded:
            tries += 1
    world.ends_before = None
    world.clock.advance(timedelta(seconds=61))
    world.ledger.recover()
    world.look(after=10)

    assert tries == 1, "the ledger still has its run, until the lease ends"
    assert world.shows_its_source()


def test_a_batch_that_takes_longer_than_a_refresh_may_is_ended_and_tried_again() -> None:
    world = LiveTable("WITH ('materialized-table.refresh.timeout' = '60 s') FRESHNESS = INTERVAL '10' SECOND")
    for amount in range(10, 40):
        world.append(amount)
        world.look(after=5)
    world.append(40)

    def hang() -> None:
        world.clock.advance(timedelta(seconds=61))
        world.lookout.renew_leases()

    world.when_writing(hang)
    world.look(after=5)

    (stretch,) = world.stretches()
    assert (stretch.status, stretch.batches) == (RunStatus.FAILED, 30)
    assert "took longer than 60 s" in str(stretch.error)
    world.look(after=10)
    assert world.shows_its_source()


def test_a_foreign_commit_is_replaced_at_the_next_change() -> None:
    world = LiveTable()
    world.append(10)
    world.look()
    world.engine.write_foreign(LIVE, [{"ds": "2026-03-09", "amount": 99}])
    world.append(11)

    world.look(after=5)

    assert world.shows_its_source()
    assert world.ways == ["append", "recompute"]


def test_a_worker_that_lost_its_lease_publishes_nothing_more() -> None:
    world = LiveTable()
    world.append(10)
    world.look()
    zombie = world.lookout
    world.clock.advance(timedelta(seconds=61))
    world.restart()
    world.recover()
    world.append(11)
    world.look()
    main = world.engine.load(LIVE).main

    zombie.poll()

    assert world.engine.load(LIVE).main == main
    assert world.shows_its_source()


def test_the_table_stays_activated_while_its_query_fails() -> None:
    world = LiveTable()
    world.append(10)
    world.engine.poisoned = {PartitionSpec.of({"ds": "2026-03-02"})}

    world.look()

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    assert world.table("live").status is RefreshStatus.ACTIVATED
    assert (row["health"], row["last error"]) == (
        "FAILING",
        "division by zero in ds=2026-03-02 (line 1, position 8)",
    )


def test_a_table_over_a_table_that_was_published_is_looked_at_at_once() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' MINUTE")
    world.look()
    world.append(10)
    world.services.changed_tables.put(ORDERS)
    world.signal.set()

    world.look(after=0.1)

    assert world.shows_its_source()


@pytest.mark.parametrize("command", ["SUSPEND", "SET REFRESH_MODE = FULL", "REFRESH"])
def test_the_look_out_rests_while_nothing_is_to_be_done(command: str) -> None:
    world = LiveTable()
    world.append(10)
    world.look()
    world.sql(f"ALTER MATERIALIZED TABLE live {command}")
    for _ in range(3):
        world.look(after=100)
    world.work()
    world.look(after=0.1)

    assert world.lookout.poll() > world.clock.elapsed(), "it would poll again and again without a pause"


def test_the_look_out_rests_without_any_table() -> None:
    world = LiveTable()
    world.sql("DROP MATERIALIZED TABLE live")
    world.look()
    world.look(after=1)

    assert world.lookout.poll() > world.clock.elapsed()


def test_a_commit_that_is_heard_of_is_shown_long_before_the_sources_are_looked_at_again() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = CONTINUOUS")
    world.look()
    world.append(10)
    world.look()
    before = world.shows_its_source()

    heard = world.lookout.notify(ORDERS)
    world.look()

    assert (before, heard, world.shows_its_source()) == (False, True, True)


def test_a_commit_that_is_heard_of_soon_after_a_batch_is_looked_at_when_the_next_one_may_begin() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '4' SECOND")
    world.look()
    world.append(10)
    world.look(after=1)
    world.append(11)
    looks = world.engine.looks

    world.lookout.notify(ORDERS)
    world.look()

    assert (world.engine.looks, world.shows_its_source()) == (looks, False)
    world.look(after=2)
    assert world.shows_its_source()


def test_no_look_is_due_for_a_commit_to_a_table_that_no_query_reads() -> None:
    world = LiveTable()
    world.look()

    assert not world.lookout.notify("lake.default.customers")


class StandingClock(SystemClock):
    """A clock that stands: what waits for a later time is done only if something wakes it."""

    def __init__(self, instant: datetime) -> None:
        self._instant = instant
        super().__init__()

    def now(self) -> datetime:
        return self._instant

    def elapsed(self) -> timedelta:
        return timedelta(days=1)


def test_a_thread_wakes_the_look_out_for_a_commit_of_this_process() -> None:
    world = LiveTable()
    workers = ContinuousWorkers(replace(world.services, clock=StandingClock(world.clock.now())), count=1)
    workers.start()
    try:
        assert world.signal.wait(lambda: bool(world.stretches()), 30)
        world.append(10)

        assert world.signal.wait(world.shows_its_source, 30)
    finally:
        workers.stop(30)


class FineClock(SystemClock):
    """The machine's clock, read so finely that no two readings are equal."""

    def __init__(self) -> None:
        self._numbers = count()
        super().__init__()

    def now(self) -> datetime:
        return super().now() + timedelta(microseconds=10 * next(self._numbers))

    def elapsed(self) -> timedelta:
        return super().elapsed() + timedelta(microseconds=10 * next(self._numbers))


def test_threads_follow_a_source_by_the_clock_of_the_machine_until_they_are_stopped() -> None:
    world = LiveTable("FRESHNESS = INTERVAL '1' SECOND")
    workers = ContinuousWorkers(replace(world.services, clock=FineClock()), count=2)
    workers.start()
    try:
        for amount in (10, 11):
            world.append(amount)
            assert world.signal.wait(world.shows_its_source, 30)
    finally:
        workers.stop(30)

    assert world.stretches_of_all() == [RunStatus.SUCCEEDED]
    assert world.engine.load(LIVE).branches == {}
