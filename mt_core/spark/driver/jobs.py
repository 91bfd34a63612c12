"""Runs Spark work under a job id, so that any thread can cancel it and read its progress.

One statement or refresh may start any number of Spark jobs, and tasks of inline plans, which Spark's
scheduler does not know. They share a job id, which is used both as a *tag*, because the status tracker lists
Spark jobs by tag, and as a *job group*, because only a group can be cancelled together with its future Spark
jobs. `tagged` sets both as local properties of the thread. A job may be cancelled before its first Spark job
has started, so `JobCancels` remembers cancelled jobs.

Row counts come from Spark's status store, which evicts old jobs and stages at any time, even between two
calls. A count is therefore reported only if every stage is still stored or was skipped by Spark.

`RunningJobs` determines whether a job was the only one that ran when a JVM was lost, and is therefore
probably the cause. This decides how often a run may be attempted.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from mt_core.errors import Canceled
from mt_core.model.progress import Progress
from mt_core.spark.driver.failures import java_classes

REMEMBERED = 10_000
_NOT_FOUND = "java.util.NoSuchElementException"
COUNTED_MS = 500
# The time in seconds after which a JVM that is out of memory has exited.
ENDS_AFTER_S = 60.0
_NO_THREAD = 0
# The handle of each SparkContext.
_handles: WeakKeyDictionary[SparkContext, Handle] = WeakKeyDictionary()


class JobCancels:
    """The ids of cancelled jobs. Later work under these ids is refused. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job_ids: dict[str, None] = {}
        self._at_work: dict[str, list[threading.Event]] = {}

    def add(self, job_id: str) -> None:
        with self._lock:
            self._job_ids[job_id] = None
            if len(self._job_ids) > REMEMBERED:
                del self._job_ids[next(iter(self._job_ids))]

    def __contains__(self, job_id: str) -> bool:
        with self._lock:
            return job_id in self._job_ids

    def check(self, job_id: str) -> None:
        """Raise Canceled if the job was cancelled."""
        if job_id in self:
            raise Canceled(f"Job {job_id} was cancelled.")

    @contextmanager
    def at_work(self, job_id: str) -> Iterator[None]:
        """Register the block as work of the job; `ended` waits for it."""
        end = threading.Event()
        with self._lock:
            self._at_work.setdefault(job_id, []).append(end)
        try:
            yield
        finally:
            end.set()
            with self._lock:
                self._at_work[job_id].remove(end)
                if not self._at_work[job_id]:
                    del self._at_work[job_id]

    def ended(self, job_id: str, timeout_s: float) -> bool:
        """Wait for the registered work of the job to end. Return False after *timeout_s* seconds."""
        with self._lock:
            ends = list(self._at_work.get(job_id, ()))
        return all(end.wait(timeout_s) for end in ends)


class RunningJobs:
    """The running jobs of one JVM. They are frozen when the JVM is lost. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._jobs: list[tuple[int, str]] = []
        # The jobs that ran out of memory, and the time until which they count as running.
        self._out_of_memory: dict[str, float] = {}
        self._at_loss: tuple[tuple[int, str], ...] | None = None

    @contextmanager
    def at_work(self, job_id: str) -> Iterator[None]:
        """Register the block as work of this thread for the job."""
        entry = threading.get_ident(), job_id
        with self._lock:
            self._jobs.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._jobs.remove(entry)

    def note_out_of_memory(self) -> None:
        """Count the jobs of this thread as running for another `ENDS_AFTER_S` seconds.

        They ran out of memory, so the JVM may exit only after they have ended. If the JVM is still running
        after that time, the error came from an executor of a cluster.
        """
        with self._lock:
            now = self._monotonic()
            ours = {
                job_id: now + ENDS_AFTER_S for thread, job_id in self._jobs if thread == threading.get_ident()
            }
            self._out_of_memory = {
                job_id: until for job_id, until in self._out_of_memory.items() if until > now
            } | ours

    def note_loss(self) -> None:
        """Freeze the set of running jobs. Later calls have no effect.

        The first thread that detects the loss must call this before it leaves its `at_work` block.
        """
        with self._lock:
            if self._at_loss is None:
                self._at_loss = self._running()

    def had(self, job_id: str) -> bool:
        """Return whether the job was running when the JVM was lost."""
        with self._lock:
            return any(job_id == each for _thread, each in self._running())

    def alone(self) -> bool:
        """Return whether only jobs of this thread were running when the JVM was lost."""
        with self._lock:
            jobs = self._running()
            ours = {job_id for thread, job_id in jobs if thread == threading.get_ident()}
            return all(job_id in ours for _thread, job_id in jobs)

    def _running(self) -> tuple[tuple[int, str], ...]:
        if self._at_loss is not None:
            return self._at_loss
        now = self._monotonic()
        return (
            *self._jobs,
            *((_NO_THREAD, job_id) for job_id, until in self._out_of_memory.items() if until > now),
        )


@contextmanager
def tagged(context: SparkContext, job_id: str, pool: str, description: str) -> Iterator[None]:
    """Run the Spark work that this thread starts in the block as job *job_id*."""
    handle = handle_of(context)
    previous = handle.spark.getLocalProperties()
    properties = {
        "spark.scheduler.pool": pool,
        "spark.job.tags": job_id,
        "spark.jobGroup.id": job_id,
        "spark.job.description": description,
        # Without this, a cancelled task that waits for a database or an object store occupies its core.
        "spark.job.interruptOnCancel": "true",
    }
    # One call to the JVM instead of one for each property.
    handle.spark.setLocalProperties(handle.reader.readValue(json.dumps(properties)))
    try:
        yield
    finally:
        handle.spark.setLocalProperties(previous)


def cancel(context: SparkContext, job_id: str) -> None:
    """Cancel the running Spark jobs and inline tasks of *job_id*, and its future Spark jobs."""
    handle = handle_of(context)
    context.cancelJobsWithTag(job_id)
    handle.spark.cancelJobGroupAndFutureJobs(job_id)
    handle.inline.cancel(job_id)


def progress(context: SparkContext, job_id: str) -> Progress | None:
    """Return the progress of the job's inline tasks and of the stages that Spark still stores.

    Return None if the job has neither.
    """
    store, inline = handle_of(context).spark.statusStore(), _inline(context, job_id)
    attempts = [_if_stored(store.lastStageAttempt, stage_id) for stage_id in _stages(context, job_id)]
    stages = [attempt for attempt in attempts if attempt is not None]
    if not stages and not inline.total:
        return None
    return Progress(
        done=inline.done + sum(stage.numCompleteTasks() for stage in stages),
        total=inline.total + sum(stage.numTasks() for stage in stages),
        rows_read=inline.rows_read + sum(stage.inputRecords() for stage in stages),
    )


def rows_read(context: SparkContext, job_id: str) -> int | None:
    """Return the number of rows that the scans of a completed job returned.

    Return None if Spark did not count them, or counted some of them twice. Raises Spark's errors
    untranslated.
    """
    spark = handle_of(context).spark
    # Task metrics are reported some milliseconds after the end of the task.
    spark.listenerBus().waitUntilEmpty(COUNTED_MS)
    tracker, store = spark.statusTracker(), spark.statusStore()
    stages: dict[int, Any] = {}
    for spark_job_id in tracker.getJobIdsForTag(job_id):
        info = tracker.getJobInfo(spark_job_id)
        if not info.isDefined():
            return None
        attempts = [
            (stage_id, _if_stored(store.lastStageAttempt, stage_id)) for stage_id in info.get().stageIds()
        ]
        stored = {stage_id: attempt for stage_id, attempt in attempts if attempt is not None}
        evicted = len(attempts) - len(stored)
        if evicted and evicted > _skipped(store, spark_job_id, stored.values()):
            return None
        stages |= stored
    if any(stage.attemptId() or stage.numFailedTasks() for stage in stages.values()):
        return None
    inline = _inline(context, job_id).rows_read or 0
    # Rows that were found by page indexes are not counted.
    return inline + sum(int(stage.inputRecords()) for stage in stages.values()) if stages or inline else None


def _skipped(store: Any, spark_job_id: int, stored: Iterable[Any]) -> int:
    """Return the number of skipped stages of a Spark job that are not among *stored*.

    Spark skips a stage if the output of its shuffle already exists.
    """
    job = _if_stored(store.job, spark_job_id)
    skipped = 0 if job is None else int(job.numSkippedStages())
    return skipped - sum(str(stage.status().name()) == "SKIPPED" for stage in stored)


def active_tasks(context: SparkContext, job_id: str) -> int:
    """Return the number of running tasks of the job. Tasks may outlive a cancelled job."""
    inline = _inline(context, job_id)
    running = sum(int(stage.numActiveTasks()) for stage in _stages(context, job_id).values())
    return running + inline.total - inline.done


def _inline(context: SparkContext, job_id: str) -> Progress:
    """Return the progress of the job's inline tasks, which Spark's scheduler does not know."""
    done, total, rows = json.loads(handle_of(context).inline.counts(job_id))
    return Progress(done=done, total=total, rows_read=rows)


def _if_stored(read: Callable[[int], Any], number: int) -> Any | None:
    """Return the result of *read* for a Spark job or stage, or None if the store has evicted it.

    The store may evict it between any two calls, within the limits `spark.ui.retainedJobs` and
    `spark.ui.retainedStages`.
    """
    try:
        return read(number)
    except Py4JJavaError as error:
        if java_classes(error)[:1] != (_NOT_FOUND,):
            raise
        return None


def _stages(context: SparkContext, job_id: str) -> dict[int, Any]:
    """Return the status tracker's information about the stages of the job, by stage id."""
    tracker = handle_of(context).spark.statusTracker()
    stages: dict[int, Any] = {}
    for spark_job_id in tracker.getJobIdsForTag(job_id):
        job = tracker.getJobInfo(spark_job_id)
        for stage_id in job.get().stageIds() if job.isDefined() else ():
            stage = tracker.getStageInfo(stage_id)
            if stage.isDefined():
                stages[stage_id] = stage.get()
    return stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The Java objects of a SparkContext: itself, our InlineTasks class, and a reader of properties."""

    spark: Any
    inline: Any
    reader: Any


def handle_of(context: SparkContext) -> Handle:
    """Return the cached handle of *context*."""
    handle = _handles.get(context)
    if handle is None:
        jvm: Any = context._jvm
        properties = getattr(jvm, "java.util.Properties")._java_lang_class
        reader = getattr(jvm, "com.fasterxml.jackson.databind.ObjectMapper")().readerFor(properties)
        handle = _handles[context] = Handle(
            spark=context._jsc.sc(), inline=jvm.freshtable.inline.InlineTasks, reader=reader
        )
    return handle
