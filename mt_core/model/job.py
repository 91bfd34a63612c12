"""Jobs: one row of the job store per job, the status and its transitions, and the job's status hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from mt_core.errors import IllegalStatus
from mt_core.model.stream import StreamDefinition, StreamState


class JobStatus(StrEnum):
    """The status of a job, with Flink's names."""

    # The job waits for a free slot among the running streams.
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    # The stream of a suspended materialized table, which will resume where it stopped.
    SUSPENDED = "SUSPENDED"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


_ENDS = frozenset({JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED})

TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    # A stream that is stopped with a savepoint becomes FINISHED, even if it never ran.
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
"""The kinds of jobs that return rows."""


class JobEvent(StrEnum):
    """The events that call a job status hook (FLIP-218)."""

    CREATED = "CREATED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


REFUSED = "refused: "
"""The prefix of a job's error if its statement was refused before any part of it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHook:
    """A hook as stored with its job: its name, its JSON, and the events that it has handled.

    `failures` is the number of failed calls for its next event, and `error` the error of the last failed
    call. After the last permitted retry, the event moves to `given_up`.
    """

    name: str
    body: Mapping[str, Any] = field(default_factory=dict)
    done: tuple[JobEvent, ...] = ()
    given_up: tuple[JobEvent, ...] = ()
    failures: int = 0
    retry_at: datetime | None = None
    error: str | None = None

    def next_event(self, status: JobStatus) -> JobEvent | None:
        """Return the next event to call the hook for while its job has *status*, or None if none is due."""
        events = [JobEvent.CREATED, *([JobEvent(status.value)] if status in TERMINAL else [])]
        return next((event for event in events if event not in {*self.done, *self.given_up}), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A query, change or refresh; instants are UTC.

    `kind` is the kind of statement, such as INSERT, STATEMENT SET or REFRESH. `session` is the session's
    handle and `user` the name of the token; each is "" if unknown. `rows_read` and `rows_written` are None if
    unknown. A detached job contains the `definition` and the state (`stream`) of its stream. `checkpoint` is
    where the stream resumes, and `restarts` how often it has been restarted.
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
    # The gateway that runs the job.
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
        """Whether a hook still has to be called, now or later."""
        return any(hook.next_event(self.status) is not None for hook in self.hooks)

    def advance(self, target: JobStatus, **changes: Any) -> Job:
        """Return the job with status *target* and *changes*; raise IllegalStatus if this is not allowed."""
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(f"Job {self.job_id} is {self.status} and cannot become {target}.")
        return replace(self, status=target, **changes)
