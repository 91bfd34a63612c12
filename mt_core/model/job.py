"""Jobs: one row of the job store each, the status with its transitions, and the hooks
that are called at them.
"""

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

    # It waits for its place among the streams that run.
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    # The stream of a materialized table that is suspended: it goes on where it stopped.
    SUSPENDED = "SUSPENDED"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


_ENDS = frozenset({JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED})

TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    # A stream that is stopped with a savepoint has FINISHED.
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
    """What a job status hook is called for (FLIP-218)."""

    CREATED = "CREATED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


REFUSED = "refused: "
"""How the error of a job begins whose statement was refused before anything ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHook:
    """A hook as it is stored with its job: its name, the JSON that it was given,
    and the events that it is done with.

    `failures` counts the calls for its next event that failed, the last with `error`;
    after those that it may repeat the event is among `given_up`.
    """

    name: str
    body: Mapping[str, Any] = field(default_factory=dict)
    done: tuple[JobEvent, ...] = ()
    given_up: tuple[JobEvent, ...] = ()
    failures: int = 0
    retry_at: datetime | None = None
    error: str | None = None

    def next_event(self, status: JobStatus) -> JobEvent | None:
        """Return the event that it is to be called for next while its job has *status*,
        None if there is none.
        """
        events = [JobEvent.CREATED, *([JobEvent(status.value)] if status in TERMINAL else [])]
        return next((event for event in events if event not in {*self.done, *self.given_up}), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One query, change or refresh; instants are UTC.

    `kind` is what it does, in words: INSERT, STATEMENT SET, REFRESH.

    `session` and `user` are the session's handle and the name of the token, "" without one. The rows are
    those that it read and wrote, None where that is not known. A detached job has the `definition` of its
    stream and the `stream`'s state; `checkpoint` is where it goes on, after `restarts` starts of it.
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
        """Whether a hook has to be called, now or later."""
        return any(hook.next_event(self.status) is not None for hook in self.hooks)

    def advance(self, target: JobStatus, **changes: Any) -> Job:
        """Return the job in status *target* with *changes*; raises IllegalStatus for a move `TRANSITIONS`
        does not have.
        """
        if target not in TRANSITIONS[self.status]:
            raise IllegalStatus(f"Job {self.job_id} is {self.status} and cannot become {target}.")
        return replace(self, status=target, **changes)
