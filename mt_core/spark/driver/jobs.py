"""Jobs: Spark work under an id, through which any thread can cancel it and read its progress."""

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
# A JVM without memory has ended by then.
ENDS_AFTER_S = 60.0
_NO_THREAD = 0
# By SparkContext.
_handles: WeakKeyDictionary[SparkContext, Handle] = WeakKeyDictionary()


class JobCancels:
    """The ids of cancelled jobs, so that work that starts later under such an id is refused too.

    Any thread.
    """

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
        """Register the block as work for the job, for `ended`."""
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
        """Wait until the registered work of the job has ended; return whether it has."""
        with self._lock:
            ends = list(self._at_work.get(job_id, ()))
        return all(end.wait(timeout_s) for end in ends)


class JobsAtWork:
    """The jobs at work in one JVM; once it is lost, those that were at work then. Any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._jobs: list[tuple[int, str]] = []
        # The jobs that ran out of memory, and until when they count.
        self._hungry: dict[str, float] = {}
        self._at_loss: tuple[tuple[int, str], ...] | None = None

    @contextmanager
    def at_work(self, job_id: str) -> Iterator[None]:
        """Register the block, in which this thread works for the job."""
        entry = threading.get_ident(), job_id
        with self._lock:
            self._jobs.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._jobs.remove(entry)

    def remember_ours(self) -> None:
        """Let the jobs of this thread count as at work for `ENDS_AFTER_S`:
        they took the memory of a JVM that may end after them.

        One that is still there then goes on: an executor of a cluster had no memory.
        """
        with self._lock:
            now = self._monotonic()
            ours = {
                job_id: now + ENDS_AFTER_S for thread, job_id in self._jobs if thread == threading.get_ident()
            }
            self._hungry = {job_id: until for job_id, until in self._hungry.items() if until > now} | ours

    def note_loss(self) -> None:
        """Keep which jobs are at work now: whoever notices the loss first calls this before
        it leaves its block.
        """
        with self._lock:
            if self._at_loss is None:
                self._at_loss = self._counted()

    def had(self, job_id: str) -> bool:
        """Return whether the job was at work when the JVM was lost."""
        with self._lock:
            return any(job_id == each for _thread, each in self._counted())

    def alone(self) -> bool:
        """Return whether none but jobs of this thread were at work when the JVM was lost."""
        with self._lock:
            jobs = self._counted()
            ours = {job_id for thread, job_id in jobs if thread == threading.get_ident()}
            return all(job_id in ours for _thread, job_id in jobs)

    def _counted(self) -> tuple[tuple[int, str], ...]:
        if self._at_loss is not None:
            return self._at_loss
        now = self._monotonic()
        return (*self._jobs, *((_NO_THREAD, job_id) for job_id, until in self._hungry.items() if until > now))


@contextmanager
def tagged(context: SparkContext, job_id: str, pool: str, description: str) -> Iterator[None]:
    """Run what this thread starts on Spark as job *job_id*: its tag gives the progress,
    its group cancels later work too.
    """
    handle = handle_of(context)
    before = handle.spark.getLocalProperties()
    properties = {
        "spark.scheduler.pool": pool,
        "spark.job.tags": job_id,
        "spark.jobGroup.id": job_id,
        "spark.job.description": description,
        # A cancel interrupts tasks: one that waits for a database or a store would keep its core
        # for as long as that takes.
        "spark.job.interruptOnCancel": "true",
    }
    # All in one call: to set them one by one, and to clear them again, takes many.
    handle.spark.setLocalProperties(handle.reader.readValue(json.dumps(properties)))
    try:
        yield
    finally:
        handle.spark.setLocalProperties(before)


def cancel(context: SparkContext, job_id: str) -> None:
    """End the running Spark jobs and inline tasks of *job_id*, and the jobs that it starts later."""
    handle = handle_of(context)
    context.cancelJobsWithTag(job_id)
    handle.spark.cancelJobGroupAndFutureJobs(job_id)
    handle.inline.cancel(job_id)


def progress(context: SparkContext, job_id: str) -> Progress | None:
    """Return how far all stages and inline tasks are that the job has had and Spark remembers;
    None when there are none.
    """
    store, inline = handle_of(context).spark.statusStore(), _inline(context, job_id)
    attempts = [_remembered(store.lastStageAttempt, stage_id) for stage_id in _stages(context, job_id)]
    stages = [attempt for attempt in attempts if attempt is not None]
    if not stages and not inline.total:
        return None
    return Progress(
        done=inline.done + sum(stage.numCompleteTasks() for stage in stages),
        total=inline.total + sum(stage.numTasks() for stage in stages),
        rows_read=inline.rows_read + sum(stage.inputRecords() for stage in stages),
    )


def rows_read(context: SparkContext, job_id: str) -> int | None:
    """Return how many rows the scans of the job, which has ended, gave; None where Spark did not count them,
    or counted some twice. Raises Spark's own errors."""
    spark = handle_of(context).spark
    # What tasks counted arrives some milliseconds after they have ended.
    spark.listenerBus().waitUntilEmpty(COUNTED_MS)
    tracker, store = spark.statusTracker(), spark.statusStore()
    stages: dict[int, Any] = {}
    for spark_job_id in tracker.getJobIdsForTag(job_id):
        info = tracker.getJobInfo(spark_job_id)
        if not info.isDefined():
            return None
        attempts = [
            (stage_id, _remembered(store.lastStageAttempt, stage_id)) for stage_id in info.get().stageIds()
        ]
        found = {stage_id: attempt for stage_id, attempt in attempts if attempt is not None}
        forgotten = len(attempts) - len(found)
        if forgotten and forgotten > _skipped(store, spark_job_id, found.values()):
            return None
        stages |= found
    if any(stage.attemptId() or stage.numFailedTasks() for stage in stages.values()):
        return None
    inline = _inline(context, job_id).rows_read or 0
    # Of rows that were looked up by page indexes nobody counts how many were read.
    return inline + sum(int(stage.inputRecords()) for stage in stages.values()) if stages or inline else None


def _skipped(store: Any, spark_job_id: int, found: Iterable[Any]) -> int:
    """Return how many stages of a job besides those that were *found* were skipped,
    for others have their rows.
    """
    job = _remembered(store.job, spark_job_id)
    skipped = 0 if job is None else int(job.numSkippedStages())
    return skipped - sum(str(stage.status().name()) == "SKIPPED" for stage in found)


def active_tasks(context: SparkContext, job_id: str) -> int:
    """Return how many tasks of the job run now; those of a cancelled job end after it."""
    inline = _inline(context, job_id)
    running = sum(int(stage.numActiveTasks()) for stage in _stages(context, job_id).values())
    return running + inline.total - inline.done


def _inline(context: SparkContext, job_id: str) -> Progress:
    """Return how far the inline tasks of the job are, which Spark's scheduler does not know."""
    done, total, rows = json.loads(handle_of(context).inline.counts(job_id))
    return Progress(done=done, total=total, rows_read=rows)


def _remembered(read: Callable[[int], Any], number: int) -> Any | None:
    """Return what Spark's store has of a job or a stage, None once it has forgotten it, which it may between
    any two calls: it keeps as many as `spark.ui.retainedJobs` and `spark.ui.retainedStages` say."""
    try:
        return read(number)
    except Py4JJavaError as error:
        if java_classes(error)[:1] != (_NOT_FOUND,):
            raise
        return None


def _stages(context: SparkContext, job_id: str) -> dict[int, Any]:
    """Return what Spark's tracker says of the stages that the job has had, by their ids."""
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
    """Spark's own context behind PySpark's, our class of inline tasks, and a reader of JSON
    as Java properties.
    """

    spark: Any
    inline: Any
    reader: Any


def handle_of(context: SparkContext) -> Handle:
    """Return the handle on *context*, from a cache."""
    handle = _handles.get(context)
    if handle is None:
        jvm: Any = context._jvm
        properties = getattr(jvm, "java.util.Properties")._java_lang_class
        reader = getattr(jvm, "com.fasterxml.jackson.databind.ObjectMapper")().readerFor(properties)
        handle = _handles[context] = Handle(
            spark=context._jsc.sc(), inline=jvm.freshtable.inline.InlineTasks, reader=reader
        )
    return handle
