"""The rows of a query as Arrow batches, in the query's order: a wave of partitions at a time, each wave a Spark job."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import _create_local_socket

from mt_core.errors import EngineError
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jobs import handle_of
from mt_core.spark.driver.jvm_objects import state_of, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.limit import Window, limited_rows

# The size that a wave should have, so that the JVM does not hold much more for a slow reader.
WAVE_BYTES = 64 * 2**20
GROWTH = 4
LARGEST = 256
_LENGTH = 4
# The setting that limits the result of one job, and so of a wave.
_TOO_MUCH = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJob:
    """The id, the pool and the description of a query on Spark."""

    job_id: str
    pool: str
    description: str


def batches(
    driver: SparkDriver, frame: DataFrame, schema: pa.Schema, job: QueryJob
) -> Generator[pa.RecordBatch | None]:
    """Yield the rows of *frame*; None before a batch that takes one more job. Any thread may take the next one.

    The caller takes the first inside `SparkDriver.run_tagged`, which says what is raised. A query with no more partitions
    than Spark has cores is one job; one with a limit runs no more partitions than are needed to reach it.
    """
    waves = _Waves(driver, frame, job)
    while waves.left:
        with driver.translating():
            stream = waves.run()
        try:
            while not waves.window.full:
                with driver.translating():
                    message = stream.next()
                if message is None:
                    break
                waves.bytes += len(message)
                yield waves.window.cut(pa.ipc.read_record_batch(pa.py_buffer(message), schema))
        finally:
            # The JVM releases what it has not sent.
            stream.file.close()
        if waves.left:
            yield None


class _Waves:
    """The partitions of a query, run some at a time. The reader adds to `bytes`, and cuts its rows by `window`."""

    def __init__(self, driver: SparkDriver, frame: DataFrame, job: QueryJob) -> None:
        self._driver, self._frame, self._job = driver, frame, job
        self._partitions: Any = None
        self._count, self._done, self._size = 0, 0, 0
        self._settings: Any = None
        self.bytes, self.window = 0, Window()

    @property
    def left(self) -> bool:
        """Whether there are partitions that still have to run; true before the first job."""
        return self._partitions is None or (self._done < self._count and not self.window.full)

    def run(self) -> _Stream:
        """Run the next wave; the first one as part of the job that its caller has begun."""
        job, session, is_first = self._job, self._frame.sparkSession, self._partitions is None
        context = session.sparkContext
        with nullcontext() if is_first else self._driver.run_tagged(job.job_id, job.pool, job.description):
            self._give_settings(context)
            if is_first:
                rows, self.window = limited_rows(self._frame)
                self._partitions, self._count = rows.toJavaRDD(), rows.getNumPartitions()
            run_job = static_member(session, "org.apache.spark.api.python.PythonRDD.runJob")
            size = min(self._next_size(context), self._count - self._done)
            while True:
                wave = list(range(self._done, self._done + size))
                try:
                    served = run_job(handle_of(context).spark, self._partitions, wave)
                except Py4JJavaError as error:
                    if size <= 1 or _TOO_MUCH not in str(error.java_exception.getMessage()):
                        raise
                    # Earlier waves were smaller. No row of this one has been read: it can run again.
                    self._size = size = max(size // GROWTH, 1)
                    continue
                self._done += size
                return _Stream(session, served)

    def _give_settings(self, context: Any) -> None:
        """Give the session's settings to the tasks of the current job, as Spark does for its own actions.

        All waves have those of the first: the session may SET others meanwhile. They end with the job.
        """
        if self._settings is None:
            session = self._frame.sparkSession
            as_java = static_member(session, "scala.jdk.javaapi.CollectionConverters.asJava")
            # The result of getAllConfs does not change with the session.
            self._settings = as_java(state_of(session).conf().getAllConfs())
        handle_of(context).spark.getLocalProperties().putAll(self._settings)

    def _next_size(self, context: Any) -> int:
        if self._count <= 1:
            return 1
        cores = max(context.defaultParallelism, 1)
        if not self._done:
            self._size = cores
        else:
            fitting = WAVE_BYTES * self._done // max(self.bytes, 1)
            self._size = max(cores, min(fitting, GROWTH * self._size, LARGEST * cores))
        return self._size


class _Stream:
    """The messages of one wave that the JVM serves, each behind its length."""

    def __init__(self, session: SparkSession, served: Any) -> None:
        try:
            self._server = served[2]
            self.file: IO[bytes] = _create_local_socket((served[0], served[1]))  # type: ignore[assignment]
        except Exception:
            with suppress(*SPARK_ERRORS):
                _dismiss(session, served)
            raise

    def next(self) -> bytes | None:
        """Return the next message, None at the end; raises the JVM's error if it could not serve all."""
        head = self.file.read(_LENGTH)
        size = int.from_bytes(head, "big", signed=True) if len(head) == _LENGTH else -1
        if size < 0:
            # The end looks like a JVM that died between two messages; this call distinguishes them.
            self._server.getResult()
            return None
        message = self.file.read(size)
        if len(message) < size:
            self._server.getResult()
            raise EngineError("Spark sent less of a result than it had announced; repeat the statement.")
        return message


def _dismiss(session: SparkSession, served: Any) -> None:
    """End the thread of the JVM that serves a wave to nobody: it would wait for a reader, with the rows, as long as the JVM lives.

    The JVM knocks at its own door: this process may have no file left to open.
    """
    loopback = static_member(session, "java.net.InetAddress.getLoopbackAddress")()
    static_member(session, "java.net.Socket")(loopback, served[0]).close()
