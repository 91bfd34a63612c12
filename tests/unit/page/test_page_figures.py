"""The figures of a table: how fresh it was, and what its refreshes took and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mt_core.gateway.facts.refreshes import History
from mt_core.gateway.page.charts.figures import Figures, Stalest, figures_of
from mt_core.model.freshness import Freshness
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.run import Batch, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.runs.decide import SUSPENDED
from tests.support.registry_facts import HOUR, NOON, a_run, a_table

MINUTE = timedelta(minutes=1)
HOURLY = a_table(created_at=NOON - 7 * 24 * HOUR)


def ended(at: datetime, took: timedelta = MINUTE, **changes: Any) -> RefreshRun:
    """Return a run that was requested and started *took* before its end *at*."""
    run = a_run(status=RunStatus.SUCCEEDED, requested_at=at - took, started_at=at - took, finished_at=at)
    return replace(run, **changes)


def history(
    *runs: RefreshRun,
    table: MaterializedTable = HOURLY,
    lasts: timedelta = 4 * HOUR,
    hours: Sequence[FreshnessHour] = (),
    running: RefreshRun | None = None,
) -> History:
    """Return what happened from noon on."""
    return History(
        table=table,
        since=NOON,
        until=NOON + lasts,
        runs=runs,
        hours=hours,
        is_complete=True,
        running=running,
    )


def figures(of: History) -> Figures:
    return figures_of(of, of.curve())


def hour(number: int, **changes: Any) -> FreshnessHour:
    nothing = FreshnessHour(
        table_id="t-1",
        hour=NOON + number * HOUR,
        worst_s=0,
        late_s=0,
        fault=None,
        batches=0,
        rows=0,
        failed=0,
    )
    return replace(nothing, **changes)


def continuous() -> MaterializedTable:
    definition = replace(
        HOURLY.definition, refresh_mode=RefreshMode.CONTINUOUS, freshness=Freshness(10, "SECOND")
    )
    return replace(HOURLY, definition=definition)


def test_a_table_without_refreshes_has_no_figures() -> None:
    found = figures(history())

    assert (found.fresh, found.stalest, found.median_s, found.p95_s) == (None, None, None, None)
    assert (found.rows_a_day, found.bytes_a_day, dict(found.ended)) == (None, None, {})


def test_a_table_is_late_from_the_second_schedule_time_after_its_sources_were_read() -> None:
    # Read at 12:00, so late from 14:00 on, until a refresh publishes at 15:00.
    found = figures(history(ended(NOON + MINUTE), ended(NOON + 3 * HOUR, 30 * MINUTE)))

    assert (found.known_s, found.late_s) == (4 * 3600 - 60, 3600)
    assert found.fresh == pytest.approx(1 - 3600 / (4 * 3600 - 60))
    assert found.stalest == Stalest(seconds=3 * 3600, at=NOON + 3 * HOUR)


def test_the_time_in_which_a_table_was_suspended_is_neither_fresh_nor_late() -> None:
    table = replace(HOURLY, status=RefreshStatus.SUSPENDED, status_at=NOON + HOUR)

    found = figures(history(ended(NOON + MINUTE), table=table, lasts=10 * HOUR))

    assert (found.known_s, found.fresh) == (3600 - 60, 1.0)
    assert found.stalest == Stalest(seconds=3600, at=NOON + HOUR)


def test_a_table_that_was_late_only_because_of_its_source_is_not_called_fresh() -> None:
    runs = [ended(NOON + number * HOUR, timedelta(0)) for number in range(5)]

    found = figures(history(*runs, hours=[hour(1, late_s=1800.0, fault="source")]))

    assert (found.late_s, found.known_s) == (1800, 4 * 3600)


def test_an_hour_in_which_a_table_and_its_source_were_late_counts_once() -> None:
    # Late from 14:00 to 15:00 by itself; for half of this hour and the one before, its source was late.
    runs = [ended(NOON + MINUTE), ended(NOON + 3 * HOUR, 30 * MINUTE)]
    hours = [hour(1, late_s=1800.0, fault="source"), hour(2, late_s=1800.0, fault="query")]

    assert figures(history(*runs, hours=hours)).late_s == 1800 + 3600


def test_durations_are_from_the_request_to_the_end_and_of_refreshes_that_wrote_rows() -> None:
    runs = [ended(NOON + number * MINUTE, timedelta(seconds=number)) for number in range(1, 21)]
    others = [
        ended(NOON + MINUTE, 30 * MINUTE, status=RunStatus.FAILED),
        ended(NOON + MINUTE, timedelta(0), status=RunStatus.SKIPPED),
        ended(NOON - HOUR, 30 * MINUTE),
        ended(NOON + MINUTE, 30 * MINUTE, status=RunStatus.SKIPPED, decision=SUSPENDED),
    ]

    found = figures(history(*runs, *others))

    assert (found.median_s, found.p95_s) == (11, 20)
    assert dict(found.ended) == {RunStatus.SUCCEEDED: 20, RunStatus.FAILED: 1, RunStatus.SKIPPED: 1}


def test_rows_and_bytes_are_averages_over_the_days_of_the_table() -> None:
    runs = [ended(NOON + number * 24 * HOUR, rows=10, bytes_read=1_000) for number in range(1, 5)]

    over_four_days = figures(history(*runs, lasts=4 * 24 * HOUR + MINUTE * 0))
    of_a_new_table = figures(
        history(runs[0], table=replace(HOURLY, created_at=NOON + 22 * HOUR), lasts=25 * HOUR)
    )

    assert (over_four_days.rows_a_day, over_four_days.bytes_a_day) == (10, 1_000)
    assert (of_a_new_table.rows_a_day, of_a_new_table.bytes_a_day) == (10, 1_000)


def test_a_continuous_table_has_its_recorded_hours_and_the_durations_of_its_last_batches() -> None:
    batches = tuple(
        Batch(
            number=number,
            began_at=NOON + number * MINUTE,
            seconds=float(number),
            lag=None,
            strategy="append",
            rows=1,
            snapshot_id="1",
        )
        for number in range(1, 4)
    )
    running = a_run(status=RunStatus.RUNNING, started_at=NOON, batches=3, recent=batches)
    hours = [
        hour(0, worst_s=8.0, batches=100, rows=240),
        hour(1, worst_s=90.0, late_s=36.0, batches=50, rows=240),
    ]

    found = figures(history(table=continuous(), hours=hours, running=running, lasts=24 * HOUR))

    assert (found.known_s, found.late_s, found.fresh) == (7200, 36, 1 - 36 / 7200)
    assert found.stalest == Stalest(seconds=90.0, at=NOON + HOUR)
    assert (found.median_s, found.p95_s, found.rows_a_day, found.batches) == (2, 3, 480, 150)
