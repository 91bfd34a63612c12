"""The rows of a query as ordered Arrow batches, computed in waves: one Spark job for several partitions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from mt_core.spark.driver.jobs import handle_of
from mt_core.spark.driver.jvm_objects import state_of, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.limit import Window, limited_rows
from mt_core.spark.results.parts import DEFAULT_SIZES, Parts, PartSizes, parts_of
from mt_core.spark.results.served import ServedMessages

# The target size of a wave, in bytes. The JVM buffers it for a slow reader.
WAVE_BYTES = 64 * 2**20
GROWTH = 4
LARGEST = 256
# The setting that limits the result size of a job, and therefore of a wave.
_TOO_MUCH = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJob:
    """The id, scheduler pool and description of a query on Spark."""

    job_id: str
    pool: str
    description: str


def batches(
    driver: SparkDriver, frame: DataFrame, schema: pa.Schema, job: QueryJob, sizes: PartSizes = DEFAULT_SIZES
) -> Generator[pa.RecordBatch | None]:
    """Yield the rows of *frame*, and None before each batch that requires another job.

    The first item must be requested inside `SparkDriver.run_tagged`, which documents the errors. Later
    items may be requested by any thread. A query that has no more partitions than Spark has cores is one
    job, unless its rows exceed *sizes*. A query with a LIMIT runs only the partitions that are needed to
    reach the limit.
    """
    waves = _Waves(driver, frame, job, sizes)
    while waves.left:
        with driver.translating():
            stream = waves.run()
        try:
            while not waves.window.full:
                with driver.translating():
                    message = waves.next(stream)
                if message is None:
                    break
                yield waves.window.cut(pa.ipc.read_record_batch(pa.py_buffer(message), schema))
        finally:
            stream.close()
        if waves.left:
            yield None


class _Waves:
    """Runs the partitions of a query in waves.

    `window` delimits the rows that belong to the result. The caller must apply it.
    """

    def __init__(self, driver: SparkDriver, frame: DataFrame, job: QueryJob, sizes: PartSizes) -> None:
        self._driver, self._frame, self._job, self._sizes = driver, frame, job, sizes
        self._partitions: Any = None
        # None if each partition is transferred as a whole.
        self._parts: Parts | None = None
        self._count, self._done, self._size, self._bytes = 0, 0, 0, 0
        self._settings: Any = None
        self.window = Window()

    @property
    def left(self) -> bool:
        """True if more rows must be computed; true before the first job."""
        return self._partitions is None or (self._done < self._count and not self.window.full)

    def next(self, stream: ServedMessages) -> bytes | None:
        """Return the next message with rows of the wave in *stream*, or None if no usable message follows."""
        while (message := stream.next()) is not None:
            if self._parts is None or self._parts.take(message):
                self._bytes += len(message)
                return message
            self._done = self._parts.done
            if self._parts.cut:
                break
        return None

    def run(self) -> ServedMessages:
        """Run the next wave. The first wave is part of the job that the caller has started."""
        job, session, is_first = self._job, self._frame.sparkSession, self._partitions is None
        context = session.sparkContext
        with nullcontext() if is_first else self._driver.run_tagged(job.job_id, job.pool, job.description):
            self._give_settings(context)
            if is_first:
                rows, plan, self.window = limited_rows(self._frame)
                self._partitions, self._count = rows.toJavaRDD(), rows.getNumPartitions()
                self._parts = parts_of(session, plan, self._partitions, self._sizes)
            run_job = static_member(session, "org.apache.spark.api.python.PythonRDD.runJob")
            size = min(self._next_size(context), self._count - self._done)
            while True:
                wave = list(range(self._done, self._done + size))
                partitions = self._partitions if self._parts is None else self._parts.next(size)
                try:
                    served = run_job(handle_of(context).spark, partitions, wave)
                except Py4JJavaError as error:
                    if size <= 1 or _TOO_MUCH not in str(error.java_exception.getMessage()):
                        raise
                    # Retry with a smaller wave. None of its rows have been read yet.
                    self._size = size = max(size // GROWTH, 1)
                    continue
                self._done += size if self._parts is None else 0
                return ServedMessages(session, served)

    def _give_settings(self, context: Any) -> None:
        """Pass the session's settings to the tasks of the current job, as Spark does for its own actions.

        All waves use the settings of the first wave, even if the session has changed some of them since.
        """
        if self._settings is None:
            session = self._frame.sparkSession
            as_java = static_member(session, "scala.jdk.javaapi.CollectionConverters.asJava")
            # getAllConfs returns a copy, which does not change with the session.
            self._settings = as_java(state_of(session).conf().getAllConfs())
        handle_of(context).spark.getLocalProperties().putAll(self._settings)

    def _next_size(self, context: Any) -> int:
        if self._count <= 1:
            return 1
        cores = max(context.defaultParallelism, 1)
        if not self._done:
            self._size = cores
        else:
            fitting = WAVE_BYTES * self._done // max(self._bytes, 1)
            self._size = max(cores, min(fitting, GROWTH * self._size, LARGEST * cores))
        return self._size if self._parts is None else self._parts.fitting(self._size, self._bytes)
