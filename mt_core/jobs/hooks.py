"""Job status hooks (FLIP-218): the ABC, its context, and the pluggy hook that offers it."""

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
    """The hooks a plug-in implements; its entry point in group `mt_core.job_hooks` has the name
    that `job.hooks` gives it.
    """

    @hookspec
    def mt_job_status_hooks(self) -> list[type[JobStatusHook]]:  # type: ignore[empty-body]
        """Return the job status hook classes of the plug-in."""


class JobStatusHook(ABC):
    """Is called when a job is created and when it has ended, in this order.

    Each call happens at least once: again after it raised, and again after the gateway ended before it was
    recorded, then in another process, to which only the job and *body* are left. So a call must be harmless
    when it is repeated. What it raises is recorded and never changes the outcome of the job. Every method may
    be called from any thread.
    """

    identifier: ClassVar[str]
    # Whether the work of the job waits for the first call of `on_created`, and its statement
    # for the first of its end.
    awaited: ClassVar[bool] = False
    # How often the call for one event is repeated (None: until it succeeds), and the first pause,
    # which doubles each time.
    retries: ClassVar[int | None] = None
    first_pause: ClassVar[timedelta] = timedelta(seconds=1)
    longest_pause: ClassVar[timedelta] = timedelta(minutes=10)

    def body_of(self, properties: Mapping[str, str]) -> Body:
        """Return what is stored for it with a job of a session with *properties*: JSON without secrets.

        Raises RequestInvalid for a property that it cannot use; the statement is refused then.
        """
        return {}

    @abstractmethod
    def on_created(self, job: Job, body: Body) -> None:
        """The job is stored; it may have begun, unless it waits for this call."""

    @abstractmethod
    def on_finished(self, job: Job, body: Body) -> None:
        """The job has done all its work."""

    @abstractmethod
    def on_failed(self, job: Job, body: Body, error: str) -> None:
        """The job has failed; also when the gateway that ran it ended, and part of the work may be done."""

    @abstractmethod
    def on_canceled(self, job: Job, body: Body) -> None:
        """The job was cancelled."""
