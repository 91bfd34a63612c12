"""Unbounded results: the rows of a SELECT over streams, delivered for as long as the result is open.

A client pulls pages of a result, while a Structured Streaming query pushes batches. A bounded queue
connects the two: Spark's batch thread puts Arrow batches in, and the result's thread takes them out. A full
queue blocks the batch, so a client that does not fetch slows down the stream instead of filling memory. The
query has a temporary checkpoint and no sink. It therefore starts from scratch with each statement, and its
rows are delivered at most once. A failure ends the result.

A batch job first reads the rows of the sources' current snapshots, and the stream begins after these
snapshots. A query with updates reads everything as a stream, because its operators must see all rows. None
in the queue marks the end of a Spark batch, after which a bounded stream may be complete.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mt_core.errors import Canceled, EngineUnavailable, MtError
from mt_core.model.stream import DEFAULT_INTERVAL_MS, OnSourceRewrite
from mt_core.spark.catalogs.plugins import close_plugins
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jobs import tagged
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.arrow import ResultForm, arrow_frame
from mt_core.spark.results.batches import QueryJob, batches
from mt_core.spark.results.row_stream import StreamedRows
from mt_core.spark.results.spool import Spools
from mt_core.spark.streams.operators.state_store import state_store_for
from mt_core.spark.streams.query import StreamedQuery, check_first_rows, check_streamable
from mt_core.spark.streams.sources.breakage import breakage
from mt_core.spark.streams.sources.columns import SourceColumns
from mt_core.spark.streams.sources.ends import has_ended, last_offset
from mt_core.spark.streams.sources.starts import options_of, snapshots_of, start_of

_POLL_S = 0.5
# The number of Arrow batches buffered for the reader of the result. A full queue blocks Spark's batch.
_QUEUE_SIZE = 16


def follow(driver: SparkDriver, query: StreamedQuery, job: QueryJob, spools: Spools) -> StreamedRows:
    """Return the current rows of *query*, then later ones until the result is closed.

    Raises Unsupported for a query that cannot run as a stream, and Spark's errors.
    """
    frames = _Frames(query)
    form = ResultForm(frames.stream.schema, changelog=frames.updates)
    feed = _Feed(driver, frames, form.schema, job)
    rows = StreamedRows(form, spools.new(form.schema), feed.batches(), feed.stop, endless=True)
    rows.begin_in_background()
    return rows


def reads_stream(query: StreamedQuery, *, of_insert: bool) -> bool:
    """Return whether *query* reads a table as a stream.

    Raises Spark's errors, except for an INSERT whose text already shows that it reads a stream. That INSERT
    is analysed when its job is prepared. Other statements must be analysed here, before a job or a table is
    created.
    """
    if of_insert and query.text.is_stream:
        return True
    return bool(query.plan.isStreaming())


class _Frames:
    """The stream of a query, and the rows that its sources have at its start.

    `first` is None if the stream itself delivers these rows. It must do so if it `updates`, because its
    operators must see all rows.
    """

    def __init__(self, query: StreamedQuery) -> None:
        self.query = query
        self.columns = SourceColumns(query.text.sources)
        keeps_state = check_streamable(query)
        with active_session(query.session):
            self.starts = {
                source.name: start_of(source, keeps_state=keeps_state)
                for source in query.text.sources
                if source.table is not None
            }
        check_first_rows(query, self.starts)
        snapshots = snapshots_of(self.starts)
        self.first: DataFrame | None = query.pinned(snapshots) if snapshots else None
        changelog = query.changelog(options_of(self.starts, OnSourceRewrite.FAIL))
        self.updates = changelog.updates
        self.stream = query.stream_of(changelog)
        self.last_offset = last_offset(self.stream)


class _Feed:
    """Passes the batches of a stream from Spark to the single thread that reads `batches`."""

    def __init__(self, driver: SparkDriver, frames: _Frames, schema: pa.Schema, job: QueryJob) -> None:
        self._driver, self._frames, self._schema, self._job = driver, frames, schema, job
        # None marks the end of a Spark batch.
        self._queue: Queue[pa.RecordBatch | None] = Queue(_QUEUE_SIZE)
        self._ending = Event()
        self._failure: MtError | None = None
        # Spark's clone of the session. The batches run in it.
        self._session: SparkSession | None = None

    def stop(self) -> None:
        """Stop the stream without waiting. Thread-safe."""
        self._ending.set()
        self._driver.cancel(self._job.job_id)

    def batches(self) -> Generator[pa.RecordBatch | None]:
        """Yield the rows until the stream ends, with None after each Spark batch.

        Raises the stream's error if it fails.
        """
        if self._frames.first is not None:
            yield from self._first_rows(self._frames.first)
        query = self._start()
        try:
            # Without a timeout, this would wait forever for rows of a stream that has ended.
            while not self._ending.is_set():
                try:
                    batch = self._queue.get(timeout=_POLL_S)
                except Empty:
                    if not self._is_active(query):
                        return
                    continue
                yield batch
                if batch is None and self._has_ended(query):
                    return
        finally:
            self._ending.set()
            # The JVM and its streams may be lost.
            with suppress(*SPARK_ERRORS, EngineUnavailable):
                query.stop()
                if self._session is not None:
                    close_plugins(self._session, self._driver.session)

    def _first_rows(self, frame: DataFrame) -> Generator[pa.RecordBatch | None]:
        rows = batches(self._driver, arrow_frame(frame), self._schema, self._job)
        with self._driver.run_tagged(self._job.job_id, self._job.pool, self._job.description):
            first = next(rows, None)
        if first is not None:
            yield first
        yield from rows
        yield None

    def _start(self) -> StreamingQuery:
        stream, job = self._frames.stream, self._job
        writer = stream.writeStream.foreachBatch(self._take).trigger(
            processingTime=f"{DEFAULT_INTERVAL_MS} milliseconds"
        )
        context = stream.sparkSession.sparkContext
        with (
            self._driver.translating(),
            active_session(stream.sparkSession),
            tagged(context, job.job_id, job.pool, job.description),
            state_store_for(stream),
        ):
            return writer.start()

    def _take(self, rows: DataFrame, number: int) -> None:
        """Pass on the rows of a batch. Spark calls this, and starts the next batch when it returns."""
        self._session = rows.sparkSession
        try:
            with self._driver.translating():
                self._frames.columns.check()
                with self._driver.at_work(self._job.job_id):
                    for batch in batches(self._driver, arrow_frame(rows), self._schema, self._job):
                        if batch is not None:
                            self._hand_over(batch)
                self._hand_over(None)
        except MtError as error:
            # Spark stores only the text of the traceback of an exception raised here.
            self._failure = error
            raise

    def _hand_over(self, batch: pa.RecordBatch | None) -> None:
        while not self._ending.is_set():
            with suppress(Full):
                self._queue.put(batch, timeout=_POLL_S)
                return
        raise Canceled("The result was closed.")

    def _has_ended(self, query: StreamingQuery) -> bool:
        """Return whether the rows passed on so far are all rows that the sources will ever have."""
        if self._frames.last_offset is None:
            return False
        with self._driver.translating():
            progress = query.lastProgress
            sources = [] if progress is None else json.loads(progress.json)["sources"]
            offsets = [source["endOffset"] for source in sources]
            return self._queue.empty() and has_ended(offsets, self._frames.last_offset)

    def _is_active(self, query: StreamingQuery) -> bool:
        """Return whether the stream is active. Raises the error that ended it, if there is one."""
        with self._driver.translating():
            if query.isActive:
                return True
            cause: Any = query.exception()
            if cause is None or self._ending.is_set():
                return False
            failure, streamed = self._failure, self._frames.query
            if failure is not None:
                cause = failure.__cause__ or failure
            with active_session(streamed.session):
                broken = breakage(streamed.session, streamed.text.sources, self._frames.starts, cause)
            raise broken or failure or translate(cause)
