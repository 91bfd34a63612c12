"""Refresh runs: one row of the ledger each, and the status with its transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from mt_core.errors import IllegalStatus
from mt_core.model.partition import DoubtedPartitions, Scope


class RunKind(StrEnum):
    """Where the request for a run comes from: schedule, user, change of the definition, CREATE,
    or changes of the sources.

    VERIFY and COMPACTION are no refreshes: one compares the rows of a table with those of its query,
    one writes its files anew.
    """

    PERIODIC = "PERIODIC"
    MANUAL = "MANUAL"
    REBUILD = "REBUILD"
    INITIAL = "INITIAL"
    CONTINUOUS = "CONTINUOUS"
    VERIFY = "VERIFY"
    COMPACTION = "COMPACTION"


REFRESHES = frozenset(RunKind) - {RunKind.VERIFY, RunKind.COMPACTION}
"""The kinds of runs that refresh their table."""


SCHEDULED, BACKFILL = "scheduled", "backfill"
"""Words of schedulers for what began a run of theirs; there are others."""


class RunStatus(StrEnum):
    """How far a run is."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    COALESCED = "COALESCED"


TRANSITIONS: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset(
        {RunStatus.RUNNING, RunStatus.SKIPPED, RunStatus.COALESCED, RunStatus.CANCELED}
    ),
    RunStatus.RUNNING: frozenset(
        {RunStatus.SUCCEEDED, RunStatus.SKIPPED, RunStatus.FAILED, RunStatus.CANCELED, RunStatus.QUEUED}
    ),
    RunStatus.SUCCEEDED: frozenset(),
    RunStatus.SKIPPED: frozenset(),
    RunStatus.FAILED: frozenset(),
    RunStatus.CANCELED: frozenset(),
    RunStatus.COALESCED: frozenset(),
}
TERMINAL = frozenset(status for status, targets in TRANSITIONS.items() if not targets)
OPEN = frozenset(RunStatus) - TERMINAL
DONE = frozenset({RunStatus.SUCCEEDED, RunStatus.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One publish of a CONTINUOUS run: its number, when it began (UTC), the seconds that it took, and those
    from the oldest commit that it shows to the end of its publish, None where the sources do not tell; `rows`
    were written by `strategy`, which read that many bytes of the sources, None where that is not known."""

    number: int
    began_at: datetime
    seconds: float
    lag: float | None
    strategy: str
    rows: int
    snapshot_id: str
    bytes_read: int | None = None


class Loss(StrEnum):
    """How a run lost Spark, or its gateway: alone, so that nothing else can be the cause;
    beside other work, any of which can; or because the cluster went away."""

    ALONE = "ALONE"
    SHARED = "SHARED"
    OF_CLUSTER = "OF_CLUSTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRun:
    """One row of the ledger; instants are UTC."""

    # A UUID, and the handle of the operation.
    run_id: str
    table_id: str
    kind: RunKind
    scope: Scope
    requested_at: datetime
    # The key under which a repeated request returns this run, and the request that came with it.
    request_key: str | None = None
    request: str | None = None
    schedule_time: datetime | None = None
    # The points of the grid that the run covers when it succeeds.
    points: tuple[datetime, ...] = ()
    # Whether it takes no further due points and comes after all other runs;
    # one for the next of `rest` follows it.
    solo: bool = False
    rest: tuple[datetime, ...] = ()
    # How many single points before it failed in a row with `error_before`.
    alike: int = 0
    error_before: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    status: RunStatus = RunStatus.QUEUED
    attempt: int = 1
    # How many attempts ended because Spark's cluster did, not through the run.
    excused: int | None = None
    # How many ended with a process of Spark in which other work ran too, any of which may be the cause.
    shared: int | None = None
    # 0 until a worker claims the run.
    claim: int = 0
    # The gateway that carries it out, while its lease is renewed.
    owner: str | None = None
    lease_until: datetime | None = None
    # Until when at most it waits, and for the runs of which tables:
    # their ids, each with its name and schedule time in words. A claimed run did not wait for them.
    waits_until: datetime | None = None
    waits_for: Mapping[str, str] = field(default_factory=dict)
    # When the attempt ends at the latest (None: never).
    deadline: datetime | None = None
    cancel_requested: bool = False
    # The run that a COALESCED one is part of, and the run whose failed request this one repeats.
    covered_by: str | None = None
    retry_of: str | None = None
    # The requester's highest attempt at this request, and the name of the requester's token.
    request_attempt: int | None = None
    requested_by: str | None = None
    # What began the run of the scheduler that requested it, in its own words; None:
    # it does not say, or it is no scheduler's.
    trigger: str | None = None
    # The group of its Spark jobs, and the continuous job that a CONTINUOUS run is a part of.
    job_id: str | None = None
    continuous_job: str | None = None
    # The source vector that it read, and whether it is certain that it read exactly these versions.
    vector: tuple[Mapping[str, Any], ...] | None = None
    pinned: bool | None = None
    # The partitions that were in doubt before it wrote any; None: it did not look for late rows.
    doubted: DoubtedPartitions | None = None
    # The fingerprint of the definition when a worker claimed the run.
    fingerprint: str | None = None
    # refresh, skip or suspended, and why.
    decision: str | None = None
    reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    rows: int | None = None
    # How it got them (`maintenance.strategy.Way`; None: it wrote nothing), and the bytes of its sources
    # that it read for that.
    strategy: str | None = None
    bytes_read: int | None = None
    # What its snapshot did to the rows of the table; None where that is not known.
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    # How many batches a CONTINUOUS run has published, and the last of them.
    batches: int = 0
    recent: tuple[Batch, ...] = ()
    snapshot_id: str | None = None
    error: str | None = None
    cause: str | None = None
    # Whether it failed because Spark can no longer resolve the query, or the query no longer fits the table.
    broken: bool = False
    # Whether it failed by the query or its data, not by what was lost or away:
    # engine, catalog, store, a foreign source.
    by_query: bool = False

    @property
    def asked(self) -> str | None:
        """How it was asked for by somebody who wants the rows computed in any case; None:
        it is skipped if nothing has changed.
        """
        if self.kind is not RunKind.MANUAL:
            return None
        return "asked for by a backfill" if self.trigger == BACKFILL else "asked for by hand"

    @property
    def published_at(self) -> datetime | None:
        """When the run ended, or the last of its batches while it goes on."""
        if self.finished_at is None and self.recent:
            return self.recent[-1].began_at + timedelta(seconds=self.recent[-1].seconds)
        return self.finished_at

    @property
    def why(self) -> str | None:
        """Why the run did what it did, and for which runs it did not wait; of one that waits, for which."""
        names = ", ".join(self.waits_for.values())
        if not names or (self.claim == 0 and self.status is not RunStatus.QUEUED):
            return self.reason
        if self.claim == 0:
            return f"waits for {names}"
        unawaited = f"did not wait for {names}"
        return f"{self.reason}; {unawaited}" if self.reason else unawaited

    def advance(self, target: RunStatus, **changes: Any) -> RefreshRun:
        """Return the run in status *target* with *changes*; raises IllegalStatus for a move `TRANSITIONS`
        does not have.
        """
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(f"Refresh {self.run_id} is {self.status} and cannot become {target}.")
        return replace(self, status=target, **changes)
