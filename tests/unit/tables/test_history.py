"""The curve of a table's staleness, from its ledger or from its recorded hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mt_core.model.freshness import Freshness
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode
from mt_core.tables.overview import history
from mt_core.tables.overview.history import FEWEST_POINTS, Curve, Mark, thinned
from mt_core.tables.runs.decide import SUSPENDED
from tests.support.registry_facts import HOUR, NOON, a_run, a_table

MINUTE = timedelta(minutes=1)
HOURLY = a_table()
MANY = 1_000


def refreshed(read_at: datetime, took: timedelta = MINUTE, **changes: object) -> RefreshRun:
    """Return a run that read its sources at *read_at* and published *took* later."""
    run = a_run(status=RunStatus.SUCCEEDED, started_at=read_at, finished_at=read_at + took)
    return replace(run, **changes)  # type: ignore[arg-type]


def continuous(seconds: int = 10) -> MaterializedTable:
    definition = replace(
        HOURLY.definition, refresh_mode=RefreshMode.CONTINUOUS, freshness=Freshness(seconds, "SECOND")
    )
    return replace(HOURLY, definition=definition)


def hour(number: int, worst_s: float) -> FreshnessHour:
    """Return the record of the *number*-th hour after noon."""
    return FreshnessHour(
        table_id="t-1",
        hour=NOON + number * HOUR,
        worst_s=worst_s,
        late_s=0.0,
        fault=None,
        batches=0,
        rows=0,
        failed=0,
    )


def staleness(
    table: MaterializedTable,
    runs: Iterable[RefreshRun],
    hours: Iterable[FreshnessHour],
    since: datetime,
    until: datetime,
    points: int,
) -> Curve:
    """Return the curve with at most *points* points."""
    return thinned(history.staleness(table, runs, hours, since, until), since, until, points)


def drawn(curve: Curve) -> list[tuple[float, float | None]]:
    """Return the points as minutes after noon and minutes of staleness."""
    return [
        ((each.at - NOON) / MINUTE, None if each.seconds is None else each.seconds / 60)
        for each in curve.points
    ]


def test_a_full_table_ages_from_its_read_time_until_the_next_refresh_publishes() -> None:
    runs = [refreshed(NOON), refreshed(NOON + HOUR, 5 * MINUTE)]

    curve = staleness(HOURLY, runs, [], NOON, NOON + 2 * HOUR, MANY)

    assert drawn(curve) == [(1, 1), (65, 65), (65, 5), (120, 60)]


def test_the_curve_begins_with_what_the_table_showed_before() -> None:
    curve = staleness(HOURLY, [refreshed(NOON - HOUR)], [], NOON, NOON + HOUR, MANY)

    assert drawn(curve) == [(0, 60), (60, 120)]


def test_the_promise_is_the_age_at_the_schedule_time_after_the_next() -> None:
    curve = staleness(
        HOURLY, [refreshed(NOON - HOUR), refreshed(NOON + 20 * MINUTE)], [], NOON, NOON + HOUR, MANY
    )

    assert [each.promise / 60 for each in curve.points] == [120, 120, 100, 100]


def test_a_refresh_of_older_sources_does_not_make_the_table_older() -> None:
    runs = [refreshed(NOON), refreshed(NOON - HOUR, 90 * MINUTE)]

    curve = staleness(HOURLY, runs, [], NOON, NOON + HOUR, MANY)

    assert drawn(curve) == [(1, 1), (60, 60)]


def test_a_refresh_that_found_nothing_new_makes_the_table_fresh_and_is_marked() -> None:
    skipped = refreshed(NOON + 30 * MINUTE, status=RunStatus.SKIPPED)

    curve = staleness(HOURLY, [refreshed(NOON), skipped], [], NOON, NOON + HOUR, MANY)

    assert drawn(curve) == [(1, 1), (31, 31), (31, 1), (60, 30)]
    assert curve.marks == (Mark(at=NOON + 31 * MINUTE, status=RunStatus.SKIPPED, run_id=skipped.run_id),)


def test_a_failed_refresh_is_marked_and_the_table_goes_on_ageing() -> None:
    failed = refreshed(NOON + 30 * MINUTE, status=RunStatus.FAILED)

    curve = staleness(HOURLY, [refreshed(NOON), failed], [], NOON, NOON + HOUR, MANY)

    assert drawn(curve) == [(1, 1), (60, 60)]
    assert curve.marks == (Mark(at=NOON + 31 * MINUTE, status=RunStatus.FAILED, run_id=failed.run_id),)


def test_runs_that_say_nothing_about_rows_are_left_out() -> None:
    runs = [
        refreshed(NOON, kind=RunKind.COMPACTION),
        refreshed(NOON, kind=RunKind.VERIFY, status=RunStatus.FAILED),
        refreshed(NOON, status=RunStatus.SKIPPED, decision=SUSPENDED),
        a_run(status=RunStatus.RUNNING, started_at=NOON),
    ]

    curve = staleness(HOURLY, runs, [], NOON, NOON + HOUR, MANY)

    assert curve == Curve(points=(), marks=(), hours=())


def test_a_continuous_table_has_the_worst_staleness_of_each_hour_and_gaps_where_none_is_recorded() -> None:
    hours = [hour(0, 600), hour(1, 60), hour(3, 120)]

    curve = staleness(continuous(), [], hours, NOON + HOUR / 2, NOON + 4 * HOUR, MANY)

    assert drawn(curve) == [
        *((30, 10), (60, 10), (60, 1), (120, 1), (120, None), (180, 2), (240, 2)),
    ]
    assert {each.promise for each in curve.points} == {10.0}
    assert curve.hours == tuple(hours)


def test_hours_that_do_not_touch_the_time_are_left_out() -> None:
    hours = [hour(-2, 1), hour(-1, 2), hour(0, 3), hour(1, 4)]

    curve = staleness(HOURLY, [], hours, NOON, NOON + HOUR, MANY)

    assert curve.hours == (hour(0, 3),)


def test_marks_close_to_each_other_are_one_mark_that_counts_them() -> None:
    runs = [
        refreshed(NOON + number * MINUTE, timedelta(0), status=RunStatus.FAILED) for number in range(1_000)
    ]

    curve = staleness(HOURLY, runs, [], NOON, NOON + 1_000 * MINUTE, 8)

    assert [mark.times for mark in curve.marks] == [500, 500]
    assert curve.marks[-1].run_id == runs[-1].run_id


@given(
    minutes=st.lists(st.integers(0, 3_000), max_size=200),
    points=st.integers(FEWEST_POINTS, 50),
)
def test_a_thinned_curve_keeps_its_maximum_and_its_limits(minutes: list[int], points: int) -> None:
    runs = [refreshed(NOON + number * MINUTE) for number in sorted(minutes)]
    until = NOON + 3_100 * MINUTE

    whole = staleness(HOURLY, runs, [], NOON, until, 10 * MANY).points
    thinned = staleness(HOURLY, runs, [], NOON, until, points).points

    assert len(thinned) <= points
    assert set(thinned) <= set(whole)
    assert [thinned[:1], thinned[-1:]] == [whole[:1], whole[-1:]]
    assert max((each.seconds or 0 for each in thinned), default=0) == max(
        (each.seconds or 0 for each in whole), default=0
    )
    assert [each.at for each in thinned] == sorted(each.at for each in thinned)


@given(recorded=st.sets(st.integers(0, 300), max_size=200), points=st.integers(FEWEST_POINTS, 100))
def test_a_thinned_staircase_keeps_its_worst_hour(recorded: set[int], points: int) -> None:
    hours = [hour(number, float(number)) for number in recorded]

    curve = staleness(continuous(), [], hours, NOON, NOON + 301 * HOUR, points)

    assert len(curve.points) <= points
    known = [each.seconds for each in curve.points if each.seconds is not None]
    assert max(known, default=0.0) == float(max(recorded, default=0))


def test_few_points_are_the_ends_of_the_curve() -> None:
    runs = [refreshed(NOON + number * MINUTE) for number in range(100)]

    curve = staleness(HOURLY, runs, [], NOON, NOON + 2 * HOUR, 2)

    assert drawn(curve) == [(1, 1), (120, 21)]
