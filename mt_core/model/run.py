"""Refresh runs: one row of the ledger per run, and the status with its transitions.

A run is stored before it starts, so a request survives its gateway. From then on the row is the only record
of what was decided. It records the scope and schedule times, who claimed the run, how often it was tried, and
with what result. Two invariants hold. A status changes only as `TRANSITIONS` allows, and a terminal status
never changes. RUNNING may return to QUEUED, because a lost gateway or Spark process is not the run's failure.
The number of attempts is limited. The counters `excused` and `shared` ensure that a run is not charged for
losses that other work may have caused. A fact that a run did not determine is None, never a default that
could be taken for a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from mt_core.errors import IllegalStatus
from mt_core.model.partition import DoubtedPartitions, Scope


class RunKind(StrEnum):
    """The origin of a run: a schedule, a user, a changed definition, CREATE, or changed sources.

    VERIFY and COMPACTION are not refreshes. VERIFY compares the rows of a table with those of its query;
    COMPACTION rewrites its files.
    """

    PERIODIC = "PERIODIC"
    MANUAL = "MANUAL"
    REBUILD = "REBUILD"
    INITIAL = "INITIAL"
    CONTINUOUS = "CONTINUOUS"
    VERIFY = "VERIFY"
    COMPACTION = "COMPACTION"


REFRESHES = frozenset(RunKind) - {RunKind.VERIFY, RunKind.COMPACTION}
"""The kinds of runs that refresh a table."""


SCHEDULED, BACKFILL = "scheduled", "backfill"
"""Triggers that schedulers report for their own runs; there are others."""


class RunStatus(StrEnum):
    """The status of a run."""

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
    """One publish of a CONTINUOUS run.

    `began_at` is UTC, and `seconds` is the duration. `lag` is the number of seconds from the oldest included
    commit to the end of the publish, None if the sources do not record commit times. `strategy` wrote `rows`
    rows and read `bytes_read` bytes of the sources, None if unknown.
    """

    number: int
    began_at: datetime
    seconds: float
    lag: float | None
    strategy: str
    rows: int
    snapshot_id: str
    bytes_read: int | None = None


class ReasonCode(StrEnum):
    """Why a run did or did not do its work: the kind of its `reason`, which is text with names in it.

    A run has a code whenever it has a reason. How the rows were computed is not a reason: `strategy` says it.
    A failed run has the code of the decision that it was carrying out, and its error.
    """

    # The run refreshes all that it was asked to, because a user or a backfill requested it.
    REQUESTED = "REQUESTED"
    # The sources have other rows than those that the last refresh read, or the same rows.
    SOURCES_CHANGED = "SOURCES_CHANGED"
    SOURCES_UNCHANGED = "SOURCES_UNCHANGED"
    # Whether the sources have changed cannot be determined.
    UNVERSIONED_SOURCE = "UNVERSIONED_SOURCE"
    UNSTABLE_QUERY = "UNSTABLE_QUERY"
    # No refresh has written the table, or the partition.
    NEVER_REFRESHED = "NEVER_REFRESHED"
    NEW_PARTITION = "NEW_PARTITION"
    # The query, an option or a function has changed since the last refresh.
    DEFINITION_CHANGED = "DEFINITION_CHANGED"
    # The last commit to the rows is not of a refresh of this table.
    OTHER_WRITER = "OTHER_WRITER"
    # The table was refreshed in parts since, and the run is to refresh all of it.
    IN_PARTS = "IN_PARTS"
    # The snapshot of the last refresh has expired.
    HISTORY_LOST = "HISTORY_LOST"
    # A run that applied changes may have written wrong rows.
    ROWS_IN_DOUBT = "ROWS_IN_DOUBT"
    # Partitions of the run have different reasons.
    SEVERAL = "SEVERAL"
    # A continuous run ended before its first batch decided anything.
    IDLE = "IDLE"
    # The run was not carried out: its table is suspended, refreshed continuously, or dropped, or all its
    # requesters have cancelled it.
    TABLE_SUSPENDED = "TABLE_SUSPENDED"
    TABLE_CONTINUOUS = "TABLE_CONTINUOUS"
    TABLE_DROPPED = "TABLE_DROPPED"
    CANCELLED = "CANCELLED"
    # An attempt lost its gateway, or Spark. The next attempt replaces the code once it has decided.
    PROCESS_LOST = "PROCESS_LOST"
    SPARK_LOST = "SPARK_LOST"
    # The result of a VERIFY.
    ROWS_EQUAL = "ROWS_EQUAL"
    ROWS_DIFFER = "ROWS_DIFFER"
    ROWS_NOT_COMPARED = "ROWS_NOT_COMPARED"
    # A COMPACTION: the table had too many small files or delete files.
    TOO_MANY_FILES = "TOO_MANY_FILES"


class Loss(StrEnum):
    """How a run lost Spark or its gateway.

    ALONE: the run was the only work in the process, so it is the only possible cause. SHARED: any of the work
    in the process may be the cause. OF_CLUSTER: the cluster failed.
    """

    ALONE = "ALONE"
    SHARED = "SHARED"
    OF_CLUSTER = "OF_CLUSTER"


STEPS = QUEUE, DECIDE, WRITE, PUBLISH = "queue", "decide", "write", "publish"
"""The parts of a run's time, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRun:
    """A row of the ledger; instants are UTC."""

    # A UUID, which is also the handle of the operation.
    run_id: str
    table_id: str
    kind: RunKind
    scope: Scope
    requested_at: datetime
    # The idempotency key, for which a repeated request returns this run, and the request that contained it.
    request_key: str | None = None
    request: str | None = None
    schedule_time: datetime | None = None
    # The schedule times that the run covers if it succeeds.
    points: tuple[datetime, ...] = ()
    # Whether the run covers no other due schedule times and runs after all other runs. A run for the next
    # schedule time of `rest` follows it.
    solo: bool = False
    rest: tuple[datetime, ...] = ()
    # The number of preceding runs in a row, each for a single schedule time, that failed with `error_before`.
    alike: int = 0
    error_before: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    status: RunStatus = RunStatus.QUEUED
    attempt: int = 1
    # The number of attempts that ended because Spark's cluster failed, not because of the run.
    excused: int | None = None
    # The number of attempts that ended together with a Spark process in which other work also ran; any of
    # that work may be the cause.
    shared: int | None = None
    # 0 until a worker claims the run.
    claim: int = 0
    # The gateway that carries out the run as long as it renews the lease.
    owner: str | None = None
    lease_until: datetime | None = None
    # The runs that this run waits for, and the deadline of the wait. Keys are table ids; values are the
    # table's name and schedule time as text. If the run has been claimed, it did not wait for them.
    waits_until: datetime | None = None
    waits_for: Mapping[str, str] = field(default_factory=dict)
    # The deadline of the attempt (None: no deadline).
    deadline: datetime | None = None
    cancel_requested: bool = False
    # The run that covers this COALESCED run, and the failed run that this run retries.
    covered_by: str | None = None
    retry_of: str | None = None
    # The highest attempt number that the requester sent for this request, and the name of the requester's
    # token.
    request_attempt: int | None = None
    requested_by: str | None = None
    # What triggered the scheduler's run, in the scheduler's words; None if unknown, or if no scheduler
    # requested the run.
    trigger: str | None = None
    # The group of the run's Spark jobs, and the continuous job that a CONTINUOUS run belongs to.
    job_id: str | None = None
    continuous_job: str | None = None
    # The source vector of the run, and whether the run is certain to have read exactly these versions.
    vector: tuple[Mapping[str, Any], ...] | None = None
    pinned: bool | None = None
    # The partitions that were in doubt before the run wrote; None if it did not check for late rows.
    doubted: DoubtedPartitions | None = None
    # The fingerprint of the table's definition when a worker claimed the run.
    fingerprint: str | None = None
    # The decision (refresh, skip or suspended), and its reason with the kind of that reason.
    decision: str | None = None
    reason: str | None = None
    reason_code: ReasonCode | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    # The seconds that the run spent in each of `STEPS`; those of a CONTINUOUS run are of its last batch.
    steps: Mapping[str, float] = field(default_factory=dict)
    rows: int | None = None
    # The strategy that computed the rows (`maintenance.strategy.Way`; None if nothing was written), and the
    # number of source bytes read.
    strategy: str | None = None
    bytes_read: int | None = None
    # The rows that its snapshot inserted, updated and deleted; None if unknown.
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    # The number of batches that a CONTINUOUS run has published, and the most recent ones.
    batches: int = 0
    recent: tuple[Batch, ...] = ()
    snapshot_id: str | None = None
    error: str | None = None
    cause: str | None = None
    # Whether the run failed because Spark can no longer resolve the query, or because the query no longer
    # matches the table.
    broken: bool = False
    # Whether the query or its data caused the failure, rather than a lost or unavailable component (engine,
    # catalog, store, a foreign source).
    by_query: bool = False

    @property
    def asked(self) -> str | None:
        """How the rows were explicitly requested; None for a run that is skipped if nothing has changed."""
        if self.kind is not RunKind.MANUAL:
            return None
        return "requested by a backfill" if self.trigger == BACKFILL else "requested manually"

    @property
    def published_at(self) -> datetime | None:
        """When the run finished or, for an open run, published its last batch. None before that."""
        if self.finished_at is None and self.recent:
            return self.recent[-1].began_at + timedelta(seconds=self.recent[-1].seconds)
        return self.finished_at

    @property
    def why(self) -> str | None:
        """The reason for the decision, with the runs that this run waits for or did not wait for, if any."""
        names = ", ".join(self.waits_for.values())
        if not names or (self.claim == 0 and self.status is not RunStatus.QUEUED):
            return self.reason
        if self.claim == 0:
            return f"waits for {names}"
        unawaited = f"did not wait for {names}"
        return f"{self.reason}; {unawaited}" if self.reason else unawaited

    def advance(self, target: RunStatus, **changes: Any) -> RefreshRun:
        """Return the run with status *target* and *changes*; raise IllegalStatus if this is not allowed."""
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(f"Refresh {self.run_id} is {self.status} and cannot become {target}.")
        return replace(self, status=target, **changes)
