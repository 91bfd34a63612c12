"""Refresh runs: one row of the ledger each, and the status with its transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from mt_core.errors import IllegalStatus
from mt_core.model.partition import Scope


class RunKind(StrEnum):
    """Where the request for a run comes from: schedule, user, change of the definition, or CREATE."""

    PERIODIC = "PERIODIC"
    MANUAL = "MANUAL"
    REBUILD = "REBUILD"
    INITIAL = "INITIAL"


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
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.SKIPPED, RunStatus.COALESCED, RunStatus.CANCELED}),
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
class RefreshRun:
    """One row of the ledger. `run_id` is a UUID and an operation handle; instants are UTC.

    A run that succeeds covers the grid `points`; `solo` runs take no further due points, come after all others, and are
    followed by one for the next of `rest`; `alike` single points before it failed in a row, with `error_before`; its attempt
    ends at `deadline` (None: never); `request` is the request that came with `request_key`; `claim` is 0 until a worker claims
    the run; `vector` is the source vector it read; `decision` is refresh, skip or suspended, and `reason` says why; `excused`
    attempts ended with Spark's cluster, not through the run; `broken` runs failed because Spark can no longer resolve the
    query, or the query no longer fits the table; `request_attempt` is the requester's highest attempt at this request.
    """

    run_id: str
    table_id: str
    kind: RunKind
    scope: Scope
    requested_at: datetime
    request_key: str | None = None
    request: str | None = None
    schedule_time: datetime | None = None
    points: tuple[datetime, ...] = ()
    solo: bool = False
    rest: tuple[datetime, ...] = ()
    alike: int = 0
    error_before: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    status: RunStatus = RunStatus.QUEUED
    attempt: int = 1
    excused: int | None = None
    claim: int = 0
    owner: str | None = None
    lease_until: datetime | None = None
    deadline: datetime | None = None
    cancel_requested: bool = False
    covered_by: str | None = None
    retry_of: str | None = None
    request_attempt: int | None = None
    # The name of the requester's token.
    requested_by: str | None = None
    job_id: str | None = None
    vector: tuple[Mapping[str, Any], ...] | None = None
    pinned: bool | None = None
    fingerprint: str | None = None
    decision: str | None = None
    reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    rows: int | None = None
    snapshot_id: str | None = None
    error: str | None = None
    cause: str | None = None
    broken: bool = False

    def advance(self, target: RunStatus, **changes: Any) -> RefreshRun:
        """Return the run in status *target* with *changes*; raises IllegalStatus for a move `TRANSITIONS` does not have."""
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(f"Refresh {self.run_id} is {self.status} and cannot become {target}.")
        return replace(self, status=target, **changes)
