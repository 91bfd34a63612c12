"""Calls job status hooks: in order, at least once, with exponential backoff after failures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from mt_core.base.background import error_of
from mt_core.base.backoff import pause_after
from mt_core.base.secrets import without_passwords
from mt_core.clock import Clock, is_ahead
from mt_core.errors import MtError
from mt_core.jobs.hooks import JobStatusHook
from mt_core.model.job import Job, JobEvent, JobHook
from mt_core.tables.registry import Registry, Transaction, transactional
from mt_core.tables.upkeep.gateways import living_owners

log = logging.getLogger(__name__)
LOOK_AGAIN = timedelta(seconds=30)
# Up to this many unresponsive receivers do not delay the hooks of other jobs.
_CALLERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """A hook call that is due; `index` is the position of the hook in its job."""

    job: Job
    index: int
    hook: JobHook
    event: JobEvent


class HookCalls:
    """Calls the hooks of jobs of the gateway *owner* and of gateways that have ended. Thread-safe.

    *find* returns a hook by name. Its errors count as failures of the hook, since a missing plug-in may be
    installed later.
    """

    def __init__(
        self, registry: Registry, *, owner: str, clock: Clock, find: Callable[[str], JobStatusHook]
    ) -> None:
        self.registry = registry
        self._owner, self._clock, self._find = owner, clock, find
        self._calling: set[str] = set()
        self._lock = threading.Lock()
        # The elapsed time at which to poll next, and whether to poll immediately.
        self._look_at, self._woken = clock.elapsed(), True

    def wake(self) -> None:
        """Make the next `call_due` poll for due calls."""
        self._woken = True

    def call_due(self) -> None:
        """Poll for due hooks, if it is time to, and call them."""
        if not self._woken and self._clock.elapsed() < self._look_at:
            return
        self._woken = False
        waiting = [job.job_id for job in self._waiting()]
        if waiting:
            with ThreadPoolExecutor(min(len(waiting), _CALLERS), thread_name_prefix="job-hooks") as callers:
                list(callers.map(self.call, waiting))
        retries = [
            hook.retry_at for job in self._waiting() for hook in job.hooks if hook.retry_at is not None
        ]
        now = self._clock.now()
        self._look_at = self._clock.elapsed() + min([LOOK_AGAIN, *(each - now for each in retries)])

    def call(self, job_id: str, *, awaited: bool = False) -> None:
        """Call the due hooks of a job, or only those that are *awaited*.

        Does nothing if another thread is calling the hooks of this job.
        """
        with self._lock:
            if job_id in self._calling:
                return
            self._calling.add(job_id)
        try:
            while (due := self._next(job_id, awaited=awaited)) is not None:
                self._call(due)
        finally:
            with self._lock:
                self._calling.discard(job_id)

    def _next(self, job_id: str, *, awaited: bool) -> _Due | None:
        job, now = self._job(job_id), self._clock.now()
        for index, hook in enumerate(job.hooks if job is not None else ()):
            event = hook.next_event(job.status) if job is not None else None
            is_paused = is_ahead(hook.retry_at, now, self._kind(hook.name).longest_pause)
            if (
                job is not None
                and event is not None
                and not is_paused
                and (not awaited or self._kind(hook.name).awaited)
            ):
                return _Due(job=job, index=index, hook=hook, event=event)
        return None

    def _kind(self, name: str) -> JobStatusHook | type[JobStatusHook]:
        """Return the hook *name*, or the base class with its defaults if the hook cannot be loaded."""
        try:
            return self._find(name)
        except MtError:
            return JobStatusHook

    def _call(self, due: _Due) -> None:
        failure = error_of(partial(self._perform, due))
        if failure is None:
            self._store(
                due,
                replace(due.hook, done=(*due.hook.done, due.event), failures=0, retry_at=None, error=None),
            )
            return
        log.warning(
            "hook %s failed for %s of job %s: %s", due.hook.name, due.event, due.job.job_id, failure,
            extra={"action": "job_hook_failed"},
        )  # fmt: skip
        error = without_passwords(str(failure) or type(failure).__name__)
        self._store(due, self._after_failure(due, error))

    def _perform(self, due: _Due) -> None:
        hook, job, body = self._find(due.hook.name), due.job, due.hook.body
        match due.event:
            case JobEvent.CREATED:
                hook.on_created(job, body)
            case JobEvent.FINISHED:
                hook.on_finished(job, body)
            case JobEvent.FAILED:
                hook.on_failed(job, body, job.error or "")
            case JobEvent.CANCELED:
                hook.on_canceled(job, body)
            case _:
                raise MtError(f"Job {job.job_id}: hooks are not called for {due.event}.")

    def _after_failure(self, due: _Due, error: str) -> JobHook:
        """Return the hook after a failed call: with the time of its retry, or with the event given up."""
        failures, kind = due.hook.failures + 1, self._kind(due.hook.name)
        if kind.retries is not None and failures > kind.retries:
            given_up = (*due.hook.given_up, due.event)
            return replace(due.hook, given_up=given_up, failures=0, retry_at=None, error=error)
        pause = pause_after(failures, first=kind.first_pause, longest=kind.longest_pause)
        return replace(due.hook, failures=failures, retry_at=self._clock.now() + pause, error=error)

    @transactional
    def _store(self, tx: Transaction, due: _Due, hook: JobHook) -> None:
        """Store the result of a hook call in the current row of its job."""
        job = tx.jobs.get(due.job.job_id)
        if job is not None:
            tx.jobs.replace(replace(job, hooks=(*job.hooks[: due.index], hook, *job.hooks[due.index + 1 :])))

    @transactional
    def _job(self, tx: Transaction, job_id: str) -> Job | None:
        return tx.jobs.get(job_id)

    @transactional
    def _waiting(self, tx: Transaction) -> Sequence[Job]:
        """Return the jobs with due hooks, except those that another living gateway owns."""
        others = living_owners(tx) - {self._owner}
        return [job for job in tx.jobs.with_hooks_due() if job.owner not in others]
