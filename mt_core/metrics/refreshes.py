"""The metrics of refreshes: a listener that counts ended runs, their times and rows, and published batches.

Everything is counted from events, so what was rolled back is not, and each run ends once. Events of batches
may be dropped if listeners are slow. What a continuous run has published is therefore the difference to what
was last seen of it: the numbers of its batches, and its sums. Its end, which is never dropped, counts what
is left.

A run that was claimed before this process began, or by another gateway, was counted there. Of such a run,
only the end is counted.
"""

from __future__ import annotations

from mt_core.metrics import families
from mt_core.metrics.instruments import Instruments
from mt_core.model.run import (
    DONE,
    REFRESHES,
    SCHEDULED,
    ReasonCode,
    RefreshRun,
    RunKind,
    RunStatus,
)
from mt_core.tables.events import BatchPublished, Fact, RunClaimed, RunEnded, RunRequested, RunReturned

TOTAL = "total"
"""The step that stands for the time from the request of a run to its end."""

GATEWAY, SPARK, CLUSTER = "gateway", "spark", "cluster"
_ROWS = {"insert": "rows_inserted", "update": "rows_updated", "delete": "rows_deleted"}
_LOSSES = frozenset({ReasonCode.PROCESS_LOST, ReasonCode.SPARK_LOST})


class RefreshCounters:
    """A listener of events. *scheduler* is the type of the gateway's scheduler."""

    def __init__(self, instruments: Instruments, scheduler: str) -> None:
        self._scheduler = scheduler
        self._ended = instruments.counter(families.REFRESHES)
        self._duration = instruments.histogram(families.REFRESH_DURATION)
        self._delay = instruments.histogram(families.SCHEDULE_DELAY)
        self._rows = instruments.counter(families.REFRESH_ROWS)
        self._read_bytes = instruments.counter(families.REFRESH_READ_BYTES)
        self._lost = instruments.counter(families.ATTEMPTS_LOST)
        self._batches = instruments.counter(families.BATCHES)
        self._batch_duration = instruments.histogram(families.BATCH_DURATION)
        self._batch_lag = instruments.histogram(families.BATCH_LAG)
        for operation in _ROWS:
            self._rows.labels(operation)
        for cause in (GATEWAY, SPARK, CLUSTER):
            self._lost.labels(cause)
        # The claimed runs by id, as they were last seen.
        self._claimed: dict[str, RefreshRun] = {}

    def __call__(self, fact: Fact, /) -> None:
        match fact:
            case RunRequested(run=run):
                self._request(run)
            case RunClaimed(run=run):
                self._claimed[run.run_id] = run
            case BatchPublished(run=run):
                self._publish(run, self._claimed.get(run.run_id, run))
                self._claimed[run.run_id] = run
            case RunReturned(run=run):
                self._lose(run, self._claimed.pop(run.run_id, run))
            case RunEnded(run=run):
                self._end(run, self._claimed.pop(run.run_id, None))
            case _:
                pass

    def _request(self, run: RefreshRun) -> None:
        # Only a scheduler's request has a key; a retry says nothing about the scheduler.
        scheduled = run.kind is RunKind.PERIODIC and run.trigger in (None, SCHEDULED)
        if scheduled and run.request_key and run.retry_of is None and run.schedule_time is not None:
            delay = (run.requested_at - run.schedule_time).total_seconds()
            self._delay.labels(self._scheduler).observe(max(0.0, delay))

    def _end(self, run: RefreshRun, claimed: RefreshRun | None) -> None:
        strategy = run.strategy or ""
        self._ended.labels(run.kind, run.status, strategy, run.reason_code or "").inc()
        if run.kind is RunKind.CONTINUOUS:
            self._publish(run, claimed or run)
            if run.status is RunStatus.CANCELED and run.reason_code in _LOSSES:
                self._lose(run, claimed or run)
        elif run.kind in REFRESHES and run.claim and run.status in DONE and run.finished_at is not None:
            if run.status is RunStatus.SUCCEEDED:
                self._count_rows(run, None)
            total = (run.finished_at - run.requested_at).total_seconds()
            for step, seconds in {**run.steps, TOTAL: max(0.0, total)}.items():
                self._duration.labels(step, strategy).observe(seconds)

    def _publish(self, run: RefreshRun, before: RefreshRun) -> None:
        for batch in run.recent:
            if batch.number > before.batches:
                self._batches.labels(batch.strategy).inc()
                self._batch_duration.labels(batch.strategy).observe(batch.seconds)
                if batch.lag is not None:
                    self._batch_lag.labels(batch.strategy).observe(batch.lag)
        self._count_rows(run, before)

    def _count_rows(self, run: RefreshRun, before: RefreshRun | None) -> None:
        for operation, column in _ROWS.items():
            self._rows.labels(operation).inc(_rise(column, run, before))
        self._read_bytes.inc(_rise("bytes_read", run, before))

    def _lose(self, run: RefreshRun, before: RefreshRun) -> None:
        if run.reason_code is ReasonCode.PROCESS_LOST:
            cause = GATEWAY
        else:
            cause = CLUSTER if (run.excused or 0) > (before.excused or 0) else SPARK
        self._lost.labels(cause).inc()


def _rise(column: str, run: RefreshRun, before: RefreshRun | None) -> int:
    """Return by how much a number of *run* has risen, 0 if it is unknown."""
    now, earlier = getattr(run, column), None if before is None else getattr(before, column)
    return 0 if now is None else max(0, now - (earlier or 0))
