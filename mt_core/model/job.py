"""Jobs: one row of the job store each, the status with its transitions, and the job's status hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from mt_core.errors import IllegalStatus
from mt_core.model.stream import StreamDefinition, StreamState


class JobStatus(StrEnum):
    """The status of a job, in Flink's words."""

    # It waits for a slot among the running streams.
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    # The stream of a suspended materialized table, which resumes where it stopped.
    SUSPENDED = "SUSPENDED"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


_ENDS = frozenset({JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED})

TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    # A stream stopped with a savepoint is FINISHED, even before it ran.
    JobStatus.CREATED: _ENDS | {JobStatus.RUNNING, JobStatus.SUSPENDED},
    JobStatus.RUNNING: _ENDS | {JobStatus.RESTARTING, JobStatus.SUSPENDED},
    JobStatus.RESTARTING: _ENDS | {JobStatus.RUNNING, JobStatus.SUSPENDED},
    JobStatus.SUSPENDED: _ENDS | {JobStatus.RESTARTING},
    JobStatus.FINISHED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.FAILED: frozenset(),
}
TERMINAL = frozenset(status for status, targets in TRANSITIONS.items() if not targets)
OPEN = frozenset(JobStatus) - TERMINAL
QUERIES = frozenset({"SELECT", "VERIFY"})
"""The kinds of jobs whose result has rows."""


class JobEvent(StrEnum):
    """The events that a job status hook is called for (FLIP-218)."""

    CREATED = "CREATED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


REFUSED = "refused: "
"""The prefix of a job's error if its statement was refused before anything ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHook:
    """A hook as stored with its job: its name, its JSON, and the events that it has completed.

    `failures` counts the failed calls for its next event, and `error` is that of the last one. After the last
    permitted retry the event moves to `given_up`.
    """

    name: str
    body: Mapping[str, Any] = field(default_factory=dict)
    done: tuple[JobEvent, ...] = ()
    given_up: tuple[JobEvent, ...] = ()
    failures: int = 0
    retry_at: datetime | None = None
    error: str | None = None

    def next_event(self, status: JobStatus) -> JobEvent | None:
        """Return the next event to call the hook for while its job has *status*, None if no call is due."""
        events = [JobEvent.CREATED, *([JobEvent(status.value)] if status in TERMINAL else [])]
        return next((event for event in events if event not in {*self.done, *self.given_up}), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One query, change or refresh; instants are UTC.

    `kind` is the kind of statement, such as INSERT, STATEMENT SET or REFRESH.

    `session` is the session's handle and `user` the name of the token, each "" if unknown. `rows_read` and
    `rows_written` are None if unknown. A detached job has the `definition` and the state (`stream`) of its
    stream; `checkpoint` is where the stream resumes, after `restarts` restarts.
    """

    job_id: str
    kind: str
    name: str
    status: JobStatus
    started_at: datetime
    statement: str = ""
    session: str = ""
    user: str = ""
    target: str | None = None
    # The gateway that runs it.
    owner: str | None = None
    rows_read: int | None = None
    rows_written: int | None = None
    error: str | None = None
    checkpoint: str | None = None
    restarts: int = 0
    hooks: tuple[JobHook, ...] = ()
    definition: StreamDefinition | None = None
    stream: StreamState | None = None
    finished_at: datetime | None = None
    revision: int = 0

    @property
    def hooks_due(self) -> bool:
        """Whether a hook must be called, now or later."""
        return any(hook.next_event(self.status) is not None for hook in self.hooks)

    def advance(self, target: JobStatus, **changes: Any) -> Job:
        """Return the job in status *target* with *changes*; raises IllegalStatus unless `TRANSITIONS` allows
        the move.
        """
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(f"Job {self.job_id} is {self.status} and cannot become {target}.")
        return replace(self, status=target, **changes)
