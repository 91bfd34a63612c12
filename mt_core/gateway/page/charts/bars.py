"""The bars of a chart of refreshes: how long each took, and what it did. Pure functions.

A chart has room for some hundred bars, while a table may have thousands of refreshes. So the time is divided
into equal spans, and the longest refresh of each span stands for all of them. A failed one is preferred: it
must not disappear behind one that took longer. A CONTINUOUS table has a bar for each batch that the ledger
still has, because its refreshes go on for as long as something changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mt_core.gateway.facts.refreshes import History
from mt_core.model.run import QUEUE, STEPS, Batch, RefreshRun, RunStatus
from mt_core.tables.overview.standing import says_something

MOST_BARS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A refresh or a batch that ended at `at`, or is RUNNING then, and for how many others it stands.

    `seconds` is the time from the request to the end, and `steps` are parts of it, as far as they are known.
    `number` is the number of the batch, None for a refresh. `times` counts the refreshes or batches that this
    bar stands for, and `failed` those that failed, both including this one.
    """

    at: datetime
    run_id: str
    status: RunStatus
    strategy: str | None
    seconds: float
    steps: Mapping[str, float] = field(default_factory=dict)
    rows: int | None = None
    number: int | None = None
    times: int = 1
    failed: int = 0


def bars_of(history: History, most: int = MOST_BARS) -> list[Bar]:
    """Return at most *most* bars of the refreshes of *history*, oldest first."""
    spans: dict[int, Bar] = {}
    length = (history.until - history.since) / most
    for bar in sorted(_every_bar(history), key=lambda bar: bar.at):
        number = min(int((bar.at - history.since) / length), most - 1)
        earlier = spans.get(number)
        spans[number] = bar if earlier is None else _together(earlier, bar)
    return list(spans.values())


def _every_bar(history: History) -> Iterator[Bar]:
    for run in history.runs:
        if run.finished_at is None or run.finished_at < history.since or not says_something(run):
            continue
        yield from _batches(run, history.since)
        if not run.recent or run.status is RunStatus.FAILED:
            yield _bar(run, run.finished_at)
    if (running := history.running) is not None:
        yield from _batches(running, history.since)
        if not running.recent:
            yield _bar(running, history.until)


def _bar(run: RefreshRun, at: datetime) -> Bar:
    # A refresh that failed after batches took as long as its last one at most, which is not known.
    seconds = sum(run.steps.values()) if run.recent else (at - run.requested_at).total_seconds()
    return Bar(
        at=at,
        run_id=run.run_id,
        status=run.status,
        strategy=run.strategy,
        seconds=max(seconds, 0.0),
        steps=_steps(run, at),
        rows=run.rows,
        failed=int(run.status is RunStatus.FAILED),
    )


def _steps(run: RefreshRun, at: datetime) -> Mapping[str, float]:
    """Return the steps of *run* in their order; of one that is waiting or running, its wait."""
    steps = {step: run.steps[step] for step in STEPS if step in run.steps}
    if QUEUE not in steps and not run.recent:
        steps = {QUEUE: max(((run.started_at or at) - run.requested_at).total_seconds(), 0.0), **steps}
    return steps


def _batches(run: RefreshRun, since: datetime) -> Iterable[Bar]:
    return (_bar_of_batch(run, batch) for batch in run.recent if _end(batch) >= since)


def _bar_of_batch(run: RefreshRun, batch: Batch) -> Bar:
    return Bar(
        at=_end(batch),
        run_id=run.run_id,
        status=RunStatus.SUCCEEDED,
        strategy=batch.strategy,
        seconds=batch.seconds,
        rows=batch.rows,
        number=batch.number,
    )


def _end(batch: Batch) -> datetime:
    return batch.began_at + timedelta(seconds=batch.seconds)


def _together(one: Bar, other: Bar) -> Bar:
    """Return one bar for two: the one that failed, or else the longer one."""
    shown = max(one, other, key=lambda bar: (bar.status is RunStatus.FAILED, bar.seconds))
    return replace(shown, times=one.times + other.times, failed=one.failed + other.failed)
