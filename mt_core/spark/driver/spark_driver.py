"""The Spark driver: one supervised JVM, started in the background and restarted when it is lost.

All sessions, refreshes and streams share one SparkContext, and PySpark supports only one JVM per process.
The JVM may crash, run out of memory, stop answering or lose its cluster at any time, while threads are
calling it. A single supervisor thread therefore manages the JVM. It starts the JVM, polls it and its
cluster, and kills it if it does no work. It then discards PySpark's references to it and starts the next
one.

Other threads never restart anything. `translating` turns any error of a call into one of ours. If the JVM
turns out to be unusable, it also ends the process, which wakes the supervisor. Everything created in a JVM
(sessions, views, broadcast rows) ends with it. `generation` identifies the JVM to which an object belongs.

If the first start fails with a ConfigError, the failure is final, because no later attempt can succeed. In
all other cases the driver retries forever, because a catalog database or a cluster that is down may
recover.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from typing import TypeVar

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mt_core.base.background import BackgroundLoop, attempt, start_thread
from mt_core.clock import SystemClock
from mt_core.errors import (
    Canceled,
    ClusterLost,
    CommitUnknown,
    ConfigError,
    EngineError,
    EngineUnavailable,
    MtError,
    QueryFailed,
)
from mt_core.model.progress import Progress
from mt_core.spark.driver import jobs, jvm_objects
from mt_core.spark.driver.added_jars import AddedJars
from mt_core.spark.driver.cluster import POLL_EVERY_S, ClusterWatch, is_cluster, state_of
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.failures import (
    LOST,
    NO_MEMORY,
    SILENT,
    SPARK_ERRORS,
    UNKNOWN_TO_JAVA,
    ends_process,
    translate,
)
from mt_core.spark.driver.java import check_java
from mt_core.spark.driver.jvm import Incarnation, discard, launch
from mt_core.spark.driver.jvm_watch import POLL_EVERY_S as JVM_POLL_EVERY_S
from mt_core.spark.driver.jvm_watch import Answers, JvmPulse, JvmWatch
from mt_core.spark.driver.local_files import use_local_files
from mt_core.spark.driver.session_functions import NoFunctions, SessionFunctions
from mt_core.spark.driver.workload import ANSWER_S, workload_of
from mt_core.tables.engine import EngineWorkload

STARTING = "Spark is starting; repeat the statement in a few seconds."
RETRY_S = 10.0
STOP_TIMEOUT_S = 20.0
CANCEL_AGAIN_S = 0.5
_NO_INLINE_PLANS = "jobs compute small changes, as this release of Spark does not run inline plans"
TASKS_END_S, TASKS_POLL_S = 20.0, 0.05

T = TypeVar("T")

log = logging.getLogger(__name__)


class DriverState(StrEnum):
    """The states of the driver."""

    NEW = "NEW"
    STARTING = "STARTING"
    READY = "READY"
    LOST = "LOST"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class SparkDriver:
    """One JVM at a time with one SparkContext, shared by all sessions. Thread-safe.

    The supervisor thread calls *on_launch* with the process id of each JVM before the JVM gets any work,
    and *on_session* with its first session.
    """

    def __init__(
        self,
        settings: DriverSettings,
        on_launch: Callable[[int], object] = lambda _pid: None,
        on_session: Callable[[SparkSession], object] = lambda _session: None,
        functions: SessionFunctions | None = None,
    ) -> None:
        self.settings, self._on_launch, self._on_session = settings, on_launch, on_session
        self.added_jars, self.functions = AddedJars(), functions or NoFunctions()
        self.state = DriverState.NEW
        # The number of JVMs that became ready so far. Objects of earlier JVMs no longer exist.
        self.generation = 0
        self._changed = threading.Condition()
        self._failure: MtError | None = None
        self._incarnation: Incarnation | None = None
        self._stopping = threading.Event()
        self._cancels = jobs.JobCancels()
        # None for a local master.
        self._watch: ClusterWatch | None = None
        self._jvm_watch: JvmWatch | None = None
        # The workload of the current JVM.
        self._workloads: Answers[EngineWorkload] | None = None
        # The message of errors caused by the loss of the JVM.
        self._loss = LOST
        # Set while the cluster is lost. Statements then fail immediately instead of waiting.
        self._lost_cluster: ClusterLost | None = None
        # A warning for users about a feature that is off, such as inline plans, or an empty string.
        self.note = ""
        self._supervisor = BackgroundLoop("spark-driver", self._supervise, clock=SystemClock())

    # ---------------------------------------------------------------------------------------------- lifecycle

    def start(self) -> None:
        """Start the JVM in the background. Later calls have no effect. Raises JavaMissing."""
        check_java(self.settings.environ)
        with self._changed:
            if self.state is not DriverState.NEW:
                return
            self.state = DriverState.STARTING
        self._supervisor.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until sessions can be created. Return False after *timeout_s* seconds.

        Raises EngineUnavailable with the cause if the driver has failed or was stopped.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.state in {DriverState.READY, DriverState.FAILED, DriverState.STOPPED}, timeout_s
            )
            if self.state in {DriverState.FAILED, DriverState.STOPPED}:
                raise self._unavailable() from self._failure
            return self.state is DriverState.READY

    def stop(self) -> None:
        """Stop Spark and end the JVM. Later calls have no effect.

        A JVM that is still starting ends no later than this process.
        """
        self._stopping.set()
        self._supervisor.end()
        with self._changed:
            incarnation, self._incarnation = self._incarnation, None
            self.state = DriverState.STOPPED
            self._changed.notify_all()
        if incarnation is not None:
            incarnation.stop()
        self._supervisor.join(STOP_TIMEOUT_S)

    # -------------------------------------------------------------------------------------------------- state

    def answers(self) -> bool:
        """Return whether Spark can work now.

        `state` does not say that, because it remains READY until the supervisor detects the loss of a JVM.
        """
        incarnation, jvm = self._incarnation, self._jvm_watch
        # `usable` would block if the JVM does not answer.
        return incarnation is not None and not (jvm is not None and jvm.trouble) and incarnation.usable()

    def check_cluster(self) -> None:
        """Raise ClusterLost if the cluster was lost and has not accepted a new JVM since."""
        if self._lost_cluster is not None:
            raise ClusterLost(self._lost_cluster.message)

    def trouble(self) -> str:
        """Return a message that says why Spark or its cluster accepts no work, or an empty string."""
        if self.state is not DriverState.READY:
            return self._unavailable().message
        watch, jvm = self._watch, self._jvm_watch
        if jvm is not None and jvm.trouble:
            return jvm.trouble
        return _no_executor(self.settings.master, watch.idle_s) if watch is not None and watch.idle_s else ""

    def workload(self) -> EngineWorkload | None:
        """Return what Spark does, or None if it does not answer within `ANSWER_S` seconds.

        Only one thread at a time may call this.
        """
        workloads = self._workloads
        return None if workloads is None else workloads.fresh(ANSWER_S)

    @property
    def pid(self) -> int | None:
        """The process id of the JVM, or None if none is running."""
        incarnation = self._incarnation
        return incarnation.process.pid if incarnation is not None else None

    @property
    def session(self) -> SparkSession:
        """The driver's own session. Raises EngineUnavailable while Spark is starting or lost."""
        return self._current().session

    def new_session(self) -> SparkSession:
        """Return a new session with its own settings, temporary views and current namespace.

        Raises EngineUnavailable.
        """
        with self.translating():
            session = self.session.newSession()
            with jvm_objects.active_session(session):
                # Spark creates the session catalog at its first use, from the settings of the active session.
                jvm_objects.state_of(session).catalog()
            return session

    # --------------------------------------------------------------------------------------------------- work

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Translate Spark's errors in the block and make added jars visible to its thread.

        Our own errors are raised unchanged.
        """
        incarnation = self._current()
        try:
            self.added_jars.lend(incarnation.session)
            yield
        except SPARK_ERRORS as cause:
            raise self._translated(incarnation, cause) from cause
        except (AttributeError, AssertionError, TypeError) as cause:
            # If the JVM ends during a call, PySpark fails on attributes that it has cleared itself.
            if incarnation.usable():
                raise
            raise self._translated(incarnation, ConnectionError()) from cause

    @contextmanager
    def run_tagged(self, job_id: str, pool: str, description: str) -> Iterator[None]:
        """Run the Spark work of this thread in the block as job *job_id* in *pool*, with errors translated.

        Raises Canceled after `cancel(job_id)`, even if that was called before the block. If the job was
        cancelled, errors of Spark are raised as Canceled too.
        """
        self._cancels.check(job_id)
        try:
            with (
                self._cancels.at_work(job_id),
                self.at_work(job_id),
                self.translating(),
                jobs.tagged(self.session.sparkContext, job_id, pool, description),
            ):
                # A cancel between the first check and the tag did not find any job to cancel.
                self._cancels.check(job_id)
                yield
        except (EngineUnavailable, CommitUnknown):
            raise
        except MtError as error:
            if job_id in self._cancels and isinstance(error.__cause__, SPARK_ERRORS):
                raise Canceled(f"Job {job_id} was cancelled.") from error
            raise

    @contextmanager
    def at_work(self, job_id: str) -> Iterator[None]:
        """Register the block as work of a job, so that a loss of the JVM can be attributed to the job."""
        with self.jobs_at_work().at_work(job_id):
            yield

    def jobs_at_work(self) -> jobs.RunningJobs:
        """Return the running jobs of the current JVM. Raises EngineUnavailable if there is no JVM."""
        return self._current().jobs

    def cancel(self, job_id: str) -> None:
        """Cancel the job in the background and refuse later work under its id. The job need not exist."""
        self._cancels.add(job_id)
        self._cancel_tasks(job_id)
        if not self._cancels.ended(job_id, 0):
            start_thread("cancel", partial(self._cancel_until_ended, job_id))

    def check_canceled(self, job_id: str) -> None:
        """Raise Canceled after `cancel(job_id)`. Called by work outside of Spark."""
        self._cancels.check(job_id)

    def _cancel_until_ended(self, job_id: str) -> None:
        # Spark refuses later jobs of a cancelled group, but not the first shuffles of a query that it was
        # planning. These can be cancelled only after they have started.
        while not self._cancels.ended(job_id, CANCEL_AGAIN_S):
            self._cancel_tasks(job_id)

    def _cancel_tasks(self, job_id: str) -> None:
        # Without a JVM, the job has ended.
        with suppress(EngineUnavailable), self.translating():
            jobs.cancel(self.session.sparkContext, job_id)

    def progress(self, job_id: str) -> Progress | None:
        """Return the progress of the job, or None if it has no tasks or Spark does not answer.

        Does not raise errors.
        """
        return self._read("progress", jobs.progress, job_id)

    def rows_read(self, job_id: str) -> int | None:
        """Return the number of rows that the scans of a completed job returned, or None if it is unknown.

        Does not raise errors.
        """
        return self._read("rows read", jobs.rows_read, job_id)

    def _read(self, what: str, read: Callable[[SparkContext, str], T | None], job_id: str) -> T | None:
        """Return the result of *read* for a job, or None if it fails. Statistics must not fail any work."""
        try:
            with self.translating():
                return read(self.session.sparkContext, job_id)
        except MtError as error:
            if not isinstance(error, EngineUnavailable):
                log.info("%s of job %s unknown: %s", what, job_id, error, extra={"action": "job_not_counted"})
            return None

    def wait_tasks(self, job_id: str) -> None:
        """Wait until no task of the job is running, for up to `TASKS_END_S` seconds.

        Tasks of a failed or cancelled job may still be writing files for a moment.
        """
        waited_s = 0.0
        with self.translating():
            while waited_s < TASKS_END_S and jobs.active_tasks(self.session.sparkContext, job_id):
                self._stopping.wait(TASKS_POLL_S)
                waited_s += TASKS_POLL_S

    # ----------------------------------------------------------------------------------------------- internal

    def _current(self) -> Incarnation:
        incarnation = self._incarnation
        if incarnation is None:
            raise self._unavailable() from self._failure
        return incarnation

    def _unavailable(self) -> EngineUnavailable:
        if self._lost_cluster is not None:
            return ClusterLost(self._lost_cluster.message)
        match self.state:
            case DriverState.FAILED if self._failure is not None:
                return EngineUnavailable(self._failure.message)
            case DriverState.STOPPED | DriverState.NEW:
                return EngineUnavailable(
                    "Spark is not running: the gateway is shutting down or was not started."
                )
            case state:
                text = self._loss if state is DriverState.LOST else STARTING
                why = f" The last attempt failed: {self._failure.message}" if self._failure else ""
                return EngineUnavailable(text + why)

    def _translated(self, incarnation: Incarnation, cause: BaseException) -> MtError:
        try:
            error = translate(cause)
        except (*SPARK_ERRORS, AttributeError, AssertionError):
            # The JVM exited after it had thrown the exception, before the details were read.
            error = EngineUnavailable(LOST)
        if ends_process(error):
            # This job ends before the JVM exits. It must count as running when other jobs lose the JVM.
            incarnation.jobs.note_out_of_memory()
        if isinstance(error, QueryFailed):
            return self.functions.explained(error)
        if isinstance(error, Canceled):
            return error
        if incarnation.usable():
            return EngineError(f"Spark failed: {cause}.") if UNKNOWN_TO_JAVA in str(cause) else error
        # A JVM that does not answer, or whose SparkContext has stopped, cannot be used any more. `_supervise`
        # replaces it.
        incarnation.jobs.note_loss()
        text = NO_MEMORY if incarnation.end() else self._loss
        if self._lost_cluster is not None:
            return ClusterLost(self._lost_cluster.message)
        return EngineUnavailable(text, alone=incarnation.jobs.alone())

    def _supervise(self) -> None:
        """Start a JVM and wait until it ends, or wait for the next attempt. Called in a loop."""
        incarnation = self._launch()
        if incarnation is not None:
            self._watch_until_end(incarnation)
        elif self.state is DriverState.FAILED:
            self._supervisor.end()
        else:
            self._stopping.wait(RETRY_S)

    def _launch(self) -> Incarnation | None:
        """Start a JVM and make the driver READY.

        Return None if it did not start, if its cluster accepts no work, or if the driver is stopping.
        """
        try:
            incarnation = launch(self.settings, self.generation + 1)
        except MtError as error:
            self._note_failure(error)
            return None
        pid = incarnation.process.pid
        attempt("reporting a new JVM", partial(self._on_launch, pid))
        if is_cluster(self.settings.master):
            look = partial(state_of, incarnation.session.sparkContext)
            self._watch = ClusterWatch(look, lost_after_s=self.settings.lost_after_s)
            if not self._takes_work(self._watch, incarnation):
                return None
        attempt("preparing the session catalog", partial(self._on_session, incarnation.session))
        with self._changed:
            stopping = self._stopping.is_set()
            if not stopping:
                self._incarnation, self.generation = incarnation, incarnation.generation
                self.state, self._failure, self._lost_cluster = DriverState.READY, None, None
                self._loss = LOST
            self._changed.notify_all()
        if stopping:
            incarnation.stop()
            return None
        log.info("spark is ready", extra={"action": "spark_ready", "pid": pid})
        # This is done after READY, because compilation takes a new JVM a second, and in another thread,
        # because this thread watches the JVM from now on.
        threading.Thread(
            target=self._finish_setup, args=(incarnation,), name="spark-complete", daemon=True
        ).start()
        return incarnation

    def _finish_setup(self, incarnation: Incarnation) -> None:
        """Install our file system for local files and test whether inline plans can run."""
        steps = {
            "installing our file system for local files": use_local_files,
            "trying an inline plan": self._try_inline_plan,
        }
        for what, step in steps.items():
            attempt(what, partial(self._unless_stopped, step, incarnation.session))

    def _unless_stopped(self, step: Callable[[SparkSession], None], session: SparkSession) -> None:
        try:
            step(session)
        except SPARK_ERRORS:
            # This is expected if the driver is stopping, which ends the JVM in the middle of any step.
            if not self._stopping.is_set():
                raise

    def _try_inline_plan(self, session: SparkSession) -> None:
        unusable = jvm_objects.own_class(session, "freshtable.inline.InlinePlan").probe(
            session._jsparkSession
        )
        self.note = "" if unusable is None else f"{_NO_INLINE_PLANS}: {unusable}"
        if self.note:
            log.warning("%s", self.note, extra={"action": "inline_plans_off"})

    def _takes_work(self, watch: ClusterWatch, incarnation: Incarnation) -> bool:
        """Wait until the cluster accepts work. If it is lost, discard the JVM and return False."""
        while not watch.poll():
            if watch.lost:
                self._lost_cluster = _cluster_lost(self.settings)
                self._note_failure(self._lost_cluster)
            if watch.lost or self._stopping.wait(POLL_EVERY_S) or incarnation.process.poll() is not None:
                # An orderly stop would wait for the cluster.
                incarnation.process.kill()
                discard(incarnation.gateway)
                return False
        return True

    def _watch_until_end(self, incarnation: Incarnation) -> None:
        """Wait for the JVM to exit, or kill it if it or its cluster no longer works. Then discard it."""
        process, pulses = incarnation.process, Answers(JvmPulse(incarnation.session))
        # These are asked in other threads, because a JVM that does not answer must not block this thread,
        # which kills it.
        states = None if self._watch is None else Answers(self._watch.state)
        if self._watch is not None and states is not None:
            self._watch.state = states.newest
        waiter = threading.Thread(target=process.wait, name="spark-process", daemon=True)
        waiter.start()
        self._jvm_watch = JvmWatch(pulses.newest)
        self._workloads = workloads = Answers(partial(workload_of, incarnation.session))
        every_s = JVM_POLL_EVERY_S if self._watch is None else POLL_EVERY_S
        while waiter.is_alive():
            waiter.join(every_s)
            if waiter.is_alive() and self._is_useless(self._jvm_watch, every_s):
                process.kill()
                waiter.join()
        pulses.end()
        if states is not None:
            states.end()
        workloads.end()
        self._jvm_watch = self._workloads = None
        incarnation.jobs.note_loss()
        if incarnation.ran_out_of_memory:
            self._loss = NO_MEMORY
        with self._changed:
            if self._stopping.is_set():
                return
            self._incarnation, self.state = None, DriverState.LOST
            self._changed.notify_all()
        log.warning("spark was lost", extra={"action": "spark_lost", "pid": process.pid})
        discard(incarnation.gateway)

    def _is_useless(self, jvm: JvmWatch, after_s: float) -> bool:
        """Poll a running JVM and its cluster, *after_s* seconds after the last poll.

        Return whether the JVM must be replaced.
        """
        jvm.poll(after_s)
        if jvm.stalled:
            self._loss = NO_MEMORY if jvm.out_of_memory else SILENT
            log.error("%s", jvm.trouble, extra={"action": "spark_stalled"})
            return True
        if self._watch is None:
            return False
        self._watch.poll()
        if self._watch.lost:
            self._lost_cluster = _cluster_lost(self.settings)
            log.error(
                "%s", self._lost_cluster, extra={"action": "cluster_lost", "master": self.settings.master}
            )
        return self._watch.lost

    def _note_failure(self, error: MtError) -> None:
        """Log and store the *error* of a start. It is final if no later attempt can succeed."""
        final = isinstance(error, ConfigError) and self.generation == 0
        if not final and not self._stopping.is_set():
            text = "%s Next attempt in %g s."
            log.error(text, error.message, RETRY_S, extra={"action": "spark_start_failed"})
        with self._changed:
            self._failure = error
            if final:
                self.state = DriverState.FAILED
            self._changed.notify_all()


def _no_executor(master: str, seconds: float) -> str:
    return (
        f"Spark's cluster {master} has accepted no work for {seconds:.0f} s: it has no executor for the "
        "gateway"
    )


def _cluster_lost(settings: DriverSettings) -> ClusterLost:
    return ClusterLost(
        f"{_no_executor(settings.master, settings.lost_after_s)}. Spark is restarted until the cluster "
        "accepts work; check that its master and workers are running and have free cores."
    )
