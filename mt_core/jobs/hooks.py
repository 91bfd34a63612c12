"""Job status hooks (FLIP-218): the base class, and the pluggy hook that registers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

import pluggy

from mt_core.model.job import Job

ENTRY_POINT_GROUP = "mt_core.job_hooks"
hookspec = pluggy.HookspecMarker("mt_core")
hookimpl = pluggy.HookimplMarker("mt_core")

Body = Mapping[str, Any]


class JobHooks:
    """The pluggy hooks of a plug-in; `job.hooks` refers to it by its entry point in `mt_core.job_hooks`."""

    @hookspec
    def mt_job_status_hooks(self) -> list[type[JobStatusHook]]:  # type: ignore[empty-body]
        """Return the job status hook classes of the plug-in."""


class JobStatusHook(ABC):
    """Callbacks for the creation and the end of a job, called in this order.

    Calls are made at least once: a call is repeated if it raised, or if the gateway ended before recording
    it, possibly in another process that has only the job and *body*. Calls must therefore be idempotent.
    An error is recorded and never changes the outcome of the job. Methods may be called from any thread.
    """

    identifier: ClassVar[str]
    # Whether the job's work waits for the first call of `on_created`, and its statement for the first
    # call at its end.
    awaited: ClassVar[bool] = False
    # The maximum number of retries for one event (None: unlimited), and the first pause between them,
    # which doubles each time.
    retries: ClassVar[int | None] = None
    first_pause: ClassVar[timedelta] = timedelta(seconds=1)
    longest_pause: ClassVar[timedelta] = timedelta(minutes=10)

    def body_of(self, properties: Mapping[str, str]) -> Body:
        """Return the JSON, without secrets, to store with a job of a session with *properties*.

        Raises RequestInvalid for an unusable property, which rejects the statement.
        """
        return {}

    @abstractmethod
    def on_created(self, job: Job, body: Body) -> None:
        """Handle a stored job; unless `awaited`, its work may have begun."""

    @abstractmethod
    def on_finished(self, job: Job, body: Body) -> None:
        """Handle a job that succeeded."""

    @abstractmethod
    def on_failed(self, job: Job, body: Body, error: str) -> None:
        """Handle a job that failed or whose gateway ended; part of its work may be done."""

    @abstractmethod
    def on_canceled(self, job: Job, body: Body) -> None:
        """Handle a job that was cancelled."""
