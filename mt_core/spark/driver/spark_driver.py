"""The Spark driver: started once in the background, watched, and started again when its JVM dies."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from mt_core.background import BackgroundLoop, attempt
from mt_core.clock import SystemClock
from mt_core.errors import Canceled, ClusterLost, CommitUnknown, ConfigError, EngineUnavailable, MtError, QueryFailed
from mt_core.spark.driver import jobs
from mt_core.spark.driver.added_jars import AddedJars
from mt_core.spark.driver.cluster import LOOK_EVERY_S, ClusterWatch, is_cluster, state_of
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.failures import LOST, SPARK_ERRORS, translate
from mt_core.spark.driver.jvm import Incarnation, launch
from mt_core.spark.java import check_java
from mt_core.tables.engine import Progress

STARTING = "Spark is starting; repeat the statement in a few seconds."
RETRY_S = 10.0
STOP_TIMEOUT_S = 20.0
CANCEL_AGAIN_S = 0.5

log = logging.getLogger(__name__)


class DriverState(StrEnum):
    """Where the driver stands."""

    NEW = "NEW"
    STARTING = "STARTING"
    READY = "READY"
    LOST = "LOST"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class SparkDriver:
    """One JVM at a time with one SparkContext, shared by every session. Every method may be called from any thread."""

    def __init__(self, settings: DriverSettings) -> None:
        self.settings = settings
        self._changed = threading.Condition()
        self._state = DriverState.NEW
        self._failure: MtError | None = None
        self._incarnation: Incarnation | None = None
        self._generation = 0
        self._stopping = threading.Event()
        self._launch_callbacks: list[Callable[[int], None]] = []
        self._cancels = jobs.JobCancels()
        self.added_jars = AddedJars()
        self._watch: ClusterWatch | None = None
        # Why statements need not wait: until a cluster takes the driver again.
        self._lost_cluster: ClusterLost | None = None
        self._supervisor = BackgroundLoop("spark-driver", self._supervise, clock=SystemClock())

    # ------------------------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Start the JVM in the background; raises JavaMissing at once. Starting twice is harmless."""
        check_java(self.settings.environ)
        with self._changed:
            if self._state is not DriverState.NEW:
                return
            self._state = DriverState.STARTING
        self._supervisor.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until sessions can be made; raises EngineUnavailable with the cause if they never will."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._state in {DriverState.READY, DriverState.FAILED, DriverState.STOPPED}, timeout_s
            )
            if self._state in {DriverState.FAILED, DriverState.STOPPED}:
                raise self._unavailable() from self._failure
            return self._state is DriverState.READY

    def stop(self) -> None:
        """Stop Spark and end the JVM; stopping twice is harmless. A JVM still starting ends with this process at last."""
        self._stopping.set()
        self._supervisor.end()
        with self._changed:
            incarnation, self._incarnation = self._incarnation, None
            self._state = DriverState.STOPPED
            self._changed.notify_all()
        if incarnation is not None:
            incarnation.stop()
        self._supervisor.join(STOP_TIMEOUT_S)

    def on_launch(self, callback: Callable[[int], None]) -> None:
        """Call *callback* with the process id of each JVM before anybody works with it, in the driver's own thread."""
        self._launch_callbacks.append(callback)

    # ----------------------------------------------------------------------------------------------------------- state

    def answers(self) -> bool:
        """Return whether Spark can work now: a JVM that has just died is READY until its end has been noticed."""
        incarnation = self._incarnation
        return incarnation is not None and incarnation.usable()

    @property
    def state(self) -> DriverState:
        return self._state

    def check_cluster(self) -> None:
        """Raise ClusterLost from the time the cluster was given up until one takes work again."""
        if self._lost_cluster is not None:
            raise ClusterLost(self._lost_cluster.message)

    def trouble(self) -> str:
        """Return why no work can be given to Spark, or none is taken; empty when all is well."""
        if self._state is not DriverState.READY:
            return self._unavailable().message
        watch = self._watch
        return _no_executor(self.settings.master, watch.idle_s) if watch is not None and watch.idle_s else ""

    @property
    def generation(self) -> int:
        """How many JVMs became ready so far; what was made in an older one is gone."""
        return self._generation

    @property
    def pid(self) -> int | None:
        """The process id of the JVM, or None while there is none."""
        incarnation = self._incarnation
        return incarnation.process.pid if incarnation is not None else None

    @property
    def session(self) -> SparkSession:
        """The driver's own session; raises EngineUnavailable while Spark starts or is lost."""
        return self._current().session

    @property
    def jvm(self) -> Any:
        """The py4j view of the JVM; raises EngineUnavailable."""
        return self._current().gateway.jvm

    @property
    def gateway(self) -> Any:
        """The py4j gateway to the JVM; raises EngineUnavailable."""
        return self._current().gateway

    def new_session(self) -> SparkSession:
        """Return a session with its own settings, temporary views and current namespace; raises EngineUnavailable."""
        with self.translating():
            return self._current().session.newSession()

    # ------------------------------------------------------------------------------------------------------------ work

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Raise errors of Spark in the block as ours; errors of ours pass."""
        incarnation = self._current()
        try:
            yield
        except SPARK_ERRORS as cause:
            raise self._translated(incarnation, cause) from cause
        except (AttributeError, AssertionError, TypeError) as cause:
            # PySpark trips over its own cleared attributes when the JVM goes away under a call.
            if incarnation.usable():
                raise
            raise self._translated(incarnation, ConnectionError()) from cause

    @contextmanager
    def run_tagged(self, job_id: str, pool: str, description: str) -> Iterator[None]:
        """Run the block's Spark work, started by this thread, as job *job_id* in *pool*, with errors translated.

        Raises Canceled once `cancel(job_id)` was called, also before the block; then errors of Spark mean just that.
        """
        self._cancels.check(job_id)
        try:
            with (
                self._cancels.at_work(job_id),
                self.translating(),
                jobs.tagged(self.session.sparkContext, job_id, pool, description),
            ):
                # Once more: a cancel between the first check and the tag found no job to end.
                self._cancels.check(job_id)
                self.added_jars.lend(self.session)
                yield
        except (EngineUnavailable, CommitUnknown):
            raise
        except MtError as error:
            if job_id in self._cancels and isinstance(error.__cause__, SPARK_ERRORS):
                raise Canceled(f"Job {job_id} was cancelled.") from error
            raise

    def cancel(self, job_id: str) -> None:
        """End the job soon, and refuse work under its id from now on; harmless when there is none."""
        self._cancels.add(job_id)
        self._end(job_id)
        if not self._cancels.ended(job_id, 0):
            threading.Thread(target=self._insist, args=(job_id,), name="cancel", daemon=True).start()

    def _insist(self, job_id: str) -> None:
        # Spark refuses the later jobs of a cancelled group, yet not the shuffles with which a query begins that was being
        # planned: those are ended once they are there.
        while not self._cancels.ended(job_id, CANCEL_AGAIN_S):
            self._end(job_id)

    def _end(self, job_id: str) -> None:
        # A JVM that went away has ended the job.
        with suppress(EngineUnavailable), self.translating():
            jobs.cancel(self.session.sparkContext, job_id)

    def progress(self, job_id: str) -> Progress | None:
        """Return the tasks of the job so far, or None when nothing is known."""
        with suppress(EngineUnavailable), self.translating():
            return jobs.progress(self.session.sparkContext, job_id)
        return None

    # -------------------------------------------------------------------------------------------------------- internal

    def _current(self) -> Incarnation:
        incarnation = self._incarnation
        if incarnation is None:
            raise self._unavailable() from self._failure
        return incarnation

    def _unavailable(self) -> EngineUnavailable:
        if self._lost_cluster is not None:
            return ClusterLost(self._lost_cluster.message)
        match self._state:
            case DriverState.FAILED if self._failure is not None:
                return EngineUnavailable(self._failure.message)
            case DriverState.STOPPED | DriverState.NEW:
                return EngineUnavailable("Spark is not running: the gateway is shutting down or was not started.")
            case state:
                text = LOST if state is DriverState.LOST else STARTING
                why = f" The last try failed: {self._failure.message}" if self._failure else ""
                return EngineUnavailable(text + why)

    def _translated(self, incarnation: Incarnation, cause: BaseException) -> MtError:
        try:
            error = translate(cause)
        except (*SPARK_ERRORS, AttributeError, AssertionError):
            # The JVM died between throwing and being asked what it threw.
            error = EngineUnavailable(LOST)
        if isinstance(error, QueryFailed | Canceled) or incarnation.usable():
            return error
        # A JVM that does not answer, or has no SparkContext any more, is of no use: `_supervise` sees it end.
        incarnation.process.kill()
        return EngineUnavailable(LOST) if self._lost_cluster is None else ClusterLost(self._lost_cluster.message)

    def _supervise(self) -> None:
        """Start a JVM and see it end, or wait for the next try; the supervisor does so again and again."""
        incarnation = self._launch()
        if incarnation is not None:
            self._see_end(incarnation)
            self._lose(incarnation)
        elif self._state is DriverState.FAILED:
            self._supervisor.end()
        else:
            self._stopping.wait(RETRY_S)

    def _launch(self) -> Incarnation | None:
        try:
            incarnation = launch(self.settings, self._generation + 1)
        except MtError as error:
            self._note_failure(error)
            return None
        for callback in self._launch_callbacks:
            attempt("telling of a new JVM", partial(callback, incarnation.process.pid))
        self._watch = self._watch_of(incarnation)
        if not self._is_taken(incarnation):
            return None
        return self._adopt(incarnation)

    def _watch_of(self, incarnation: Incarnation) -> ClusterWatch | None:
        """Return what watches the cluster; None for a Spark that is its own."""
        if not is_cluster(self.settings.master):
            return None
        look = partial(state_of, incarnation.session.sparkContext)
        return ClusterWatch(look, lost_after_s=self.settings.lost_after_s)

    def _is_taken(self, incarnation: Incarnation) -> bool:
        """Wait until the cluster takes work; one that does not is tried again with another JVM."""
        watch = self._watch
        while watch is not None and not watch.look():
            if watch.lost:
                self._lost_cluster = _cluster_lost(self.settings)
                self._note_failure(self._lost_cluster)
            if watch.lost or self._stopping.wait(LOOK_EVERY_S) or incarnation.process.poll() is not None:
                # Not stopped in order, which asks the cluster.
                incarnation.process.kill()
                incarnation.discard()
                return False
        return True

    def _see_end(self, incarnation: Incarnation) -> None:
        """Wait until the JVM has ended, and end it when its cluster is lost."""
        watch = self._watch
        if watch is None:
            incarnation.process.wait()
            return
        while not _ended(incarnation.process, LOOK_EVERY_S):
            watch.look()
            if watch.lost:
                self._lost_cluster = _cluster_lost(self.settings)
                log.error("%s", self._lost_cluster, extra={"action": "cluster_lost", "master": self.settings.master})
                incarnation.process.kill()
                incarnation.process.wait()
                return

    def _note_failure(self, error: MtError) -> None:
        """What another try cannot mend ends here, and is told by who waits; a database that is away may come back."""
        final = isinstance(error, ConfigError) and self._generation == 0
        if not final and not self._stopping.is_set():
            text = "%s Another try follows in %g s."
            log.error(text, error.message, RETRY_S, extra={"action": "spark_start_failed"})
        with self._changed:
            self._failure = error
            if final:
                self._state = DriverState.FAILED
            self._changed.notify_all()

    def _adopt(self, incarnation: Incarnation) -> Incarnation | None:
        with self._changed:
            adopted = not self._stopping.is_set()
            if adopted:
                self._incarnation, self._generation = incarnation, incarnation.generation
                self._state, self._failure, self._lost_cluster = DriverState.READY, None, None
            self._changed.notify_all()
        if not adopted:
            incarnation.stop()
            return None
        log.info("spark is ready", extra={"action": "spark_ready", "pid": incarnation.process.pid})
        return incarnation

    def _lose(self, incarnation: Incarnation) -> None:
        with self._changed:
            if self._stopping.is_set():
                return
            self._incarnation, self._state = None, DriverState.LOST
            self._changed.notify_all()
        log.warning("spark was lost", extra={"action": "spark_lost", "pid": incarnation.process.pid})
        incarnation.discard()


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _no_executor(master: str, seconds: float) -> str:
    return f"Spark's cluster {master} has taken no work for {seconds:.0f} s: it has no executor for the gateway"


def _cluster_lost(settings: DriverSettings) -> ClusterLost:
    return ClusterLost(
        f"{_no_executor(settings.master, settings.lost_after_s)}. Spark is started again until the cluster takes work; "
        "see that its master and workers run and have free cores."
    )
