"""Job status hooks (FLIP-218): the base class, and the pluggy hook with which plug-ins register them."""

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
    """The pluggy hooks of a plug-in; `job.hooks` names it by its entry point in `mt_core.job_hooks`."""

    @hookspec
    def mt_job_status_hooks(self) -> list[type[JobStatusHook]]:  # type: ignore[empty-body]
        """Return the plug-in's classes of job status hooks."""


class JobStatusHook(ABC):
    """Callbacks for the creation and the end of a job, called in this order.

    Each call is made at least once. It is repeated if it raised an exception, or if the gateway ended before
    recording it, possibly in another process that has only the job and *body*. Calls must therefore be
    idempotent. An exception is recorded and never changes the outcome of the job. Methods may be called from
    any thread.
    """

    identifier: ClassVar[str]
    # Whether the job's work waits for the first call of `on_created`, and its statement for the first call
    # when the job ends.
    awaited: ClassVar[bool] = False
    # The maximum number of retries for one event (None: unlimited), and the first pause before a retry, which
    # doubles each time.
    retries: ClassVar[int | None] = None
    first_pause: ClassVar[timedelta] = timedelta(seconds=1)
    longest_pause: ClassVar[timedelta] = timedelta(minutes=10)

    def body_of(self, properties: Mapping[str, str]) -> Body:
        """Return the JSON to store with a job, without secrets; *properties* are those of its session.

        Raises RequestInvalid for an invalid property, in which case the statement is refused.
        """
        return {}

    @abstractmethod
    def on_created(self, job: Job, body: Body) -> None:
        """Called after the job was stored; unless `awaited` is set, its work may have begun."""

    @abstractmethod
    def on_finished(self, job: Job, body: Body) -> None:
        """Called after the job succeeded."""

    @abstractmethod
    def on_failed(self, job: Job, body: Body, error: str) -> None:
        """Called after the job failed or its gateway ended; part of its work may have been done."""

    @abstractmethod
    def on_canceled(self, job: Job, body: Body) -> None:
        """Called after the job was cancelled."""
