"""The bars of a chart of refreshes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mt_core.gateway.facts.refreshes import History
from mt_core.gateway.page.charts.bars import Bar, bars_of
from mt_core.model.run import Batch, RefreshRun, RunStatus
from tests.support.registry_facts import HOUR, NOON, a_run, a_table

SECOND = timedelta(seconds=1)


def ended(at: datetime, took: timedelta = SECOND, **changes: Any) -> RefreshRun:
    run = a_run(status=RunStatus.SUCCEEDED, requested_at=at - took, started_at=at - took, finished_at=at)
    return replace(run, **changes)


def history(*runs: RefreshRun, running: RefreshRun | None = None) -> History:
    """Return what happened in the hour after noon."""
    return History(
        table=a_table(),
        since=NOON,
        until=NOON + HOUR,
        runs=runs,
        hours=(),
        is_complete=True,
        running=running,
    )


def batch(number: int, at: datetime) -> Batch:
    return Batch(
        number=number,
        began_at=at,
        seconds=2.0,
        lag=None,
        strategy="append",
        rows=number,
        snapshot_id="1",
    )


def test_a_refresh_has_a_bar_at_its_end_with_its_steps_in_their_order() -> None:
    steps = {"publish": 1.0, "queue": 4.0, "write": 3.0, "decide": 2.0}
    run = ended(NOON + 60 * SECOND, 11 * SECOND, steps=steps, strategy="append", rows=7)

    [bar] = bars_of(history(run))

    assert bar == Bar(
        at=NOON + 60 * SECOND,
        run_id=run.run_id,
        status=RunStatus.SUCCEEDED,
        strategy="append",
        seconds=11.0,
        steps=steps,
        rows=7,
    )
    assert list(bar.steps) == ["queue", "decide", "write", "publish"]


def test_a_running_refresh_has_a_bar_that_grows() -> None:
    running = a_run(
        status=RunStatus.RUNNING, requested_at=NOON + HOUR - 9 * SECOND, started_at=NOON + HOUR - 5 * SECOND
    )

    [bar] = bars_of(history(running=running))

    assert (bar.at, bar.status, bar.seconds, bar.steps) == (
        NOON + HOUR, RunStatus.RUNNING, 9.0, {"queue": 4.0},
    )  # fmt: skip


def test_refreshes_close_to_each_other_have_one_bar_in_which_a_failed_one_stays_visible() -> None:
    short = ended(NOON + SECOND, SECOND)
    failed = ended(NOON + 2 * SECOND, 2 * SECOND, status=RunStatus.FAILED)
    long = ended(NOON + 3 * SECOND, 30 * SECOND)

    [bar] = bars_of(history(long, failed, short), most=10)

    assert (bar.run_id, bar.times, bar.failed) == (failed.run_id, 3, 1)


def test_a_continuous_refresh_has_a_bar_for_each_of_its_last_batches() -> None:
    running = a_run(
        status=RunStatus.RUNNING,
        requested_at=NOON - HOUR,
        started_at=NOON - HOUR,
        recent=(batch(1, NOON - 60 * SECOND), batch(2, NOON + 60 * SECOND)),
    )
    failed = ended(
        NOON + 30 * SECOND,
        HOUR,
        status=RunStatus.FAILED,
        steps={"decide": 1.0, "write": 2.0},
        recent=(batch(9, NOON + 10 * SECOND),),
    )

    bars = bars_of(history(failed, running=running))

    assert [(bar.number, bar.status, bar.seconds, bar.rows) for bar in bars] == [
        (9, RunStatus.SUCCEEDED, 2.0, 9),
        (None, RunStatus.FAILED, 3.0, None),
        (2, RunStatus.SUCCEEDED, 2.0, 2),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 3600), st.sampled_from([RunStatus.SUCCEEDED, RunStatus.FAILED]))),
    st.integers(1, 50),
)
def test_bars_stand_for_every_refresh_and_are_never_too_many(
    refreshes: list[tuple[int, RunStatus]], most: int
) -> None:
    runs = [ended(NOON + second * SECOND, status=status) for second, status in refreshes]

    bars = bars_of(history(*runs), most)

    assert len(bars) <= most
    assert sum(bar.times for bar in bars) == len(refreshes)
    assert sum(bar.failed for bar in bars) == sum(status is RunStatus.FAILED for _, status in refreshes)
    assert [bar.at for bar in bars] == sorted(bar.at for bar in bars)
