"""Events: what happens to runs, tables and jobs, for listeners in this process.

A fact follows from a change that the registry has committed, and from nothing else: `facts_of` is a pure
function of the stored row before and after. So facts are never about work that was rolled back, they are in
the order of the commits, and no command has to report anything. Only `StepDone` comes from the thread that
took the step. Facts are about what this process commits. They are lost with it, and other gateways have their
own. So a listener shows something, counts it or wakes a thread. What must arrive is read from the registry
again (`mt_core.tables.overview`) or is a notice of the same transaction (`mt_core.tables.outbox`).

Listeners run in one thread, one after the other, so a slow one delays the others but never the work that it
hears of. If it is so slow that `CAPACITY` facts wait, steps, batches and the progress of streams are dropped
and counted. The facts on which counters and states depend are never dropped. Without a listener there is
neither a queue nor a thread, and the registry collects nothing.

Of a streaming job, each change of its row is a fact: it was created, started, restarted, failed, suspended,
stopped or ended, its stop was requested or refused, and its stream came to another batch. The owner stores
the progress of a running stream every 5 seconds, so several micro-batches may be one fact. Calls of hooks,
renewals of leases and rows that are written again unchanged are no facts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol, assert_never

from mt_core.base.background import BackgroundLoop, attempt
from mt_core.clock import Clock
from mt_core.model.job import OPEN, Job
from mt_core.model.run import Batch, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.registry import Change, JobChange, Registry, RunChange, TableChange

log = logging.getLogger(__name__)
CAPACITY = 10_000
TOGETHER_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequested:
    """A run was added to the ledger; if it needs no work, its end follows at once."""

    run: RefreshRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClaimed:
    """An attempt at a run began."""

    run: RefreshRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReturned:
    """A run was returned to the queue, because its attempt lost Spark or its process."""

    run: RefreshRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run ended, with its outcome and the times of its steps."""

    run: RefreshRun


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPublished:
    """A continuous run published a batch."""

    run: RefreshRun
    batch: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """An attempt at a run took a step, such as `write` or `publish: commit`, successfully or not."""

    run_id: str
    table_id: str
    step: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanged:
    """A table was created, changed or dropped (`table` is None)."""

    table_id: str
    table: MaterializedTable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged:
    """A job was created or its status changed."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAdvanced:
    """The stream of a job came to another batch, was restarted or is to stop, while its status stayed."""

    job: Job


RunFact = RunRequested | RunClaimed | RunReturned | RunEnded
Fact = RunFact | BatchPublished | StepDone | TableChanged | JobChanged | StreamAdvanced


class Listener(Protocol):
    """Is called with each fact, in order, by the only thread of all listeners.

    Its exceptions are logged.
    """

    def __call__(self, fact: Fact, /) -> object: ...


def facts_of(change: Change) -> Iterator[Fact]:
    """Yield the facts that a change of the registry means, in order."""
    match change:
        case RunChange(before=before, after=run):
            if before is None:
                yield RunRequested(run=run)
            yield from _run_facts(RunStatus.QUEUED if before is None else before.status, run)
            if before is not None and run.batches > before.batches:
                yield BatchPublished(run=run, batch=run.recent[-1])
        case TableChange(table_id=table_id, before=earlier, after=table):
            if earlier is None or table is None or _without_lease(earlier) != _without_lease(table):
                yield TableChanged(table_id=table_id, table=table)
        case JobChange(before=before, after=job):
            if before is None or before.status is not job.status:
                yield JobChanged(job=job)
            elif job.status in OPEN and _stream_of(before) != _stream_of(job):
                yield StreamAdvanced(job=job)
        case _:
            assert_never(change)


def _run_facts(before: RunStatus, run: RefreshRun) -> Iterator[RunFact]:
    if run.status is before:
        return
    match run.status:
        case RunStatus.QUEUED:
            yield RunReturned(run=run)
        case RunStatus.RUNNING:
            yield RunClaimed(run=run)
        case _:
            yield RunEnded(run=run)


def _without_lease(table: MaterializedTable) -> MaterializedTable:
    intent = table.intent and replace(table.intent, lease_until=table.intent.started_at)
    return replace(table, intent=intent, revision=0, claim=0)


def _stream_of(job: Job) -> tuple[object, ...]:
    return (job.stream, job.restarts, job.checkpoint, job.error, job.definition)


class Events:
    """Passes facts to listeners. Thread-safe, except that all listeners subscribe before `start`."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._listeners: tuple[tuple[str, Listener], ...] = ()
        self._queue: SimpleQueue[Fact | None] | None = None
        self._loop = BackgroundLoop("events", self._deliver_next, clock=clock)
        self._dropped, self._lock = 0, threading.Lock()

    @property
    def dropped(self) -> int:
        """The number of facts that were dropped because the queue was full."""
        return self._dropped

    def subscribe(self, name: str, listener: Listener) -> None:
        """Call *listener* with each fact from now on; its exceptions are logged under *name*."""
        if self._queue is None:
            self._queue = SimpleQueue()
            self._registry.on_commit = self._take
        self._listeners = (*self._listeners, (name, listener))

    def step_done(self, run: RefreshRun, step: str, seconds: float) -> None:
        """Report that an attempt at *run* took a step."""
        if self._queue is not None:
            done = StepDone(run_id=run.run_id, table_id=run.table_id, step=step, seconds=seconds)
            self._put(self._queue, done)

    def start(self) -> None:
        """Deliver facts in a thread of their own, if there are listeners."""
        if self._queue is not None:
            self._loop.start()

    def stop(self, timeout_s: float) -> bool:
        """Deliver the facts so far, and return whether that took less than *timeout_s* seconds.

        Later facts are not delivered. Harmless if nothing was started.
        """
        if self._queue is None:
            return True
        self._queue.put(None)
        delivered = self._loop.join(timeout_s)
        if not delivered:
            facts = {"action": "facts_left"}
            log.warning("%s facts were not delivered to the listeners", self._queue.qsize(), extra=facts)
        return delivered

    def deliver(self) -> None:
        """Deliver the facts so far in this thread, if no other delivers them."""
        while self._queue is not None:
            try:
                self._pass_on(self._queue.get_nowait())
            except Empty:
                return

    def _take(self, changes: tuple[Change, ...]) -> None:
        assert self._queue is not None
        for change in changes:
            for fact in facts_of(change):
                self._put(self._queue, fact)

    def _put(self, queue: SimpleQueue[Fact | None], fact: Fact) -> None:
        if queue.qsize() >= CAPACITY and isinstance(fact, StepDone | BatchPublished | StreamAdvanced):
            with self._lock:
                self._dropped += 1
        else:
            queue.put(fact)

    def _deliver_next(self) -> None:
        """Wait for a fact, then deliver it and all that follow closely: a wakeup costs more than a fact."""
        assert self._queue is not None
        fact = self._queue.get()
        if fact is not None:
            self._loop.ending.wait(TOGETHER_S)
        self._pass_on(fact)
        self.deliver()

    def _pass_on(self, fact: Fact | None) -> None:
        if fact is None:
            self._loop.end()
            return
        for name, listener in self._listeners:
            attempt(name, partial(listener, fact))
