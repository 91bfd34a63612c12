"""By how much a table is behind its freshness, and whose fault that is."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mt_core.errors import QueryFailed
from mt_core.model.run import Batch, RefreshRun, RunKind, RunStatus
from mt_core.model.table import RefreshMode
from mt_core.tables.views.lateness import Fault, Lateness, SourceTimes, lateness_of
from tests.support.manager_world import COMPUTED_TABLE, ManagerWorld
from tests.support.registry_facts import HOUR, NOON, a_run, a_table

MINUTE = timedelta(minutes=1)


def continuous_table():  # type: ignore[no-untyped-def]
    table = a_table()
    return replace(table, definition=replace(table.definition, refresh_mode=RefreshMode.CONTINUOUS))


def stretch(seconds: float) -> RefreshRun:
    batch = Batch(
        number=1, began_at=NOON, seconds=seconds, lag=None, strategy="append", rows=1, snapshot_id="7"
    )
    return a_run(
        kind=RunKind.CONTINUOUS, status=RunStatus.RUNNING, started_at=NOON, recent=(batch,), batches=1
    )


FRESHNESS = timedelta(seconds=a_table().definition.freshness.seconds)
LATE = NOON - 3 * FRESHNESS
QUEUED = a_run(status=RunStatus.QUEUED, requested_at=NOON - HOUR)
FAILED = a_run(status=RunStatus.FAILED, finished_at=NOON - HOUR)
DONE = a_run(status=RunStatus.SUCCEEDED, started_at=LATE, finished_at=LATE + MINUTE)


def running(*, waited: timedelta, worked: timedelta) -> RefreshRun:
    return a_run(status=RunStatus.RUNNING, requested_at=NOON - worked - waited, started_at=NOON - worked)


@pytest.mark.parametrize(
    ("runs", "fault"),
    [
        ([DONE], Fault.SCHEDULE),
        ([], Fault.SCHEDULE),
        ([QUEUED, DONE], Fault.QUEUE),
        ([QUEUED, FAILED], Fault.QUERY),
        ([FAILED, DONE], Fault.QUERY),
        ([running(waited=HOUR, worked=MINUTE), DONE], Fault.QUEUE),
        ([running(waited=MINUTE, worked=HOUR), DONE], Fault.QUERY),
    ],
)
def test_a_table_that_is_refreshed_too_late_says_why(runs: list[RefreshRun], fault: Fault) -> None:
    found = lateness_of(a_table(), runs, SourceTimes(read_at=LATE, shows=LATE), now=NOON)

    assert found == Lateness(by=2 * FRESHNESS, fault=fault)


@pytest.mark.parametrize(
    ("runs", "fault"),
    [
        ([stretch(FRESHNESS.total_seconds())], Fault.QUERY),
        ([stretch(0.1)], Fault.QUEUE),
        ([DONE], Fault.QUEUE),
        ([FAILED], Fault.QUERY),
    ],
)
def test_a_continuous_table_waits_for_a_thread_or_takes_too_long(
    runs: list[RefreshRun], fault: Fault
) -> None:
    found = lateness_of(continuous_table(), runs, SourceTimes(read_at=LATE, shows=LATE), now=NOON)

    assert found is not None
    assert found.fault is fault


@pytest.mark.parametrize(
    ("runs", "fault"),
    [
        ([DONE], Fault.SCHEDULE),
        ([stretch(0.1)], Fault.SCHEDULE),
        ([running(waited=timedelta(0), worked=MINUTE), DONE], Fault.SCHEDULE),
        ([running(waited=timedelta(0), worked=2 * FRESHNESS), DONE], Fault.QUERY),
        ([FAILED], Fault.QUERY),
        ([QUEUED, DONE], Fault.QUEUE),
    ],
)
def test_a_continuous_table_that_nobody_looked_at_since_the_gateway_began_waits_for_no_worker(
    runs: list[RefreshRun], fault: Fault
) -> None:
    found = lateness_of(
        continuous_table(), runs, SourceTimes(read_at=LATE, shows=LATE, looked=False), now=NOON
    )

    assert found == Lateness(by=2 * FRESHNESS, fault=fault)


@pytest.mark.parametrize("shows", [NOON, LATE])
def test_a_table_whose_refresh_failed_blames_no_writer_and_no_source(shows: datetime) -> None:
    found = lateness_of(
        a_table(), [FAILED, DONE], SourceTimes(read_at=NOON, shows=shows, written_at=LATE), now=NOON
    )

    assert found == Lateness(by=2 * FRESHNESS, fault=Fault.QUERY)


def test_a_table_that_reads_one_which_is_late_is_late_by_its_source() -> None:
    found = lateness_of(a_table(), [DONE], SourceTimes(read_at=NOON, shows=LATE), now=NOON)

    assert found == Lateness(by=2 * FRESHNESS, fault=Fault.SOURCE)


def test_a_table_whose_sources_nobody_writes_to_is_late_by_their_writer() -> None:
    found = lateness_of(a_table(), [DONE], SourceTimes(read_at=NOON, shows=NOON, written_at=LATE), now=NOON)

    assert found == Lateness(by=2 * FRESHNESS, fault=Fault.WRITER)


@pytest.mark.parametrize("written_at", [None, NOON - FRESHNESS])
def test_a_table_within_its_freshness_is_not_late(written_at: datetime | None) -> None:
    assert (
        lateness_of(a_table(), [DONE], SourceTimes(read_at=NOON, shows=NOON, written_at=written_at), now=NOON)
        is None
    )


def test_show_and_describe_say_how_late_a_table_is_and_why() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.clock.advance(5 * HOUR)

    def said() -> tuple[object, object]:
        (shown,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
        facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED totals")}
        return shown["late by"], facts["late by"]

    assert said() == ("4 h (schedule)", "4 h: no refresh was requested")

    world.tick(world.latest_point("totals"), "totals")
    assert said() == ("4 h (queue)", "4 h: its refresh waits for a worker, or did for most of its time")

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    world.engine.failing["write"] = QueryFailed("division by zero", error_class="DIVIDE_BY_ZERO")
    world.work()
    assert said() == ("4 h (query)", "4 h: its refreshes fail, or take too long")

    world.tick(world.latest_point("totals"), "totals", key=None)
    world.work()
    assert said() == (None, "no")


def late(world: ManagerWorld, name: str = "totals") -> tuple[object, object]:
    """Refresh a table, and return what SHOW and DESCRIBE say of its lateness."""
    world.tick(world.latest_point(name), name, key=None)
    world.work()
    (shown,) = world.show(f"SHOW MATERIALIZED TABLES LIKE '{name}' EXTENDED")
    facts = {row["name"]: row["type"] for row in world.show(f"DESCRIBE EXTENDED {name}")}
    return shown["late by"], facts["late by"]


def test_a_source_that_nobody_writes_to_makes_its_table_late_until_somebody_does() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.clock.advance(5 * HOUR)

    assert late(world) == ("4 h (writer)", "4 h: its sources have no new rows")

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 1}], compaction=True)
    assert late(world)[0] == "4 h (writer)"

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    assert late(world) == (None, "no")


def test_a_failing_table_is_late_by_its_query_though_nobody_had_written_before() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.clock.advance(5 * HOUR)
    assert late(world)[0] == "4 h (writer)"

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    world.engine.failing["write"] = QueryFailed("division by zero", error_class="DIVIDE_BY_ZERO")

    assert late(world) == ("4 h (query)", "4 h: its refreshes fail, or take too long")


def test_a_table_over_a_materialized_table_leaves_the_writers_to_that_one() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.sql(COMPUTED_TABLE.replace("totals", "above").replace("FROM orders", "FROM totals"))
    world.work()
    world.clock.advance(5 * HOUR)

    assert late(world) == ("4 h (writer)", "4 h: its sources have no new rows")
    assert late(world, "above") == (None, "no")


def test_a_table_whose_sources_record_no_commit_times_has_no_writer_to_blame() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.engine.sources["lake.default.orders"].committed.clear()
    world.work()
    world.clock.advance(5 * HOUR)

    assert late(world) == (None, "no")
