"""One attempt to run a stream in this process, from creating its session until it is stopped or fails.

An attempt is one Structured Streaming query for all members of a job, with `foreachBatch` as its only sink.
If Spark has started a batch and not committed it, it repeats the batch with the same offsets and the same
number. Each table therefore stores the number of its last batch in the commit that publishes the rows, and
a batch is written only to the tables that do not have it yet. Together this writes each batch exactly once
to each table, without a transaction across tables.

The invariant is that no table has a batch that the checkpoint has not begun. It is checked at the start
(`check_batches`). `pause` waits for a batch that only some tables have, because a savepoint in the middle
of a batch could not be resumed. Batch -1 has the rows of the sources' starting snapshots. It is written
before the query starts, and is not repeated for a table that has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mt_core.errors import (
    Canceled,
    DefinitionInvalid,
    EngineError,
    EngineUnavailable,
    MtError,
    QueryFailed,
    TableProtected,
    Unsupported,
)
from mt_core.model.stream import StreamDefinition, StreamProgress, TableName
from mt_core.spark.catalogs.plugins import close_plugins
from mt_core.spark.connectors.sink import PUBLISHED, Check, Sink
from mt_core.spark.connectors.stream_errors import StreamBroken, StreamFilesMissing
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.failures import LOST, SPARK_ERRORS, thrown_by, translate
from mt_core.spark.driver.jobs import tagged
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.session_functions import FunctionUncallable
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.checkpoints import Checkpoints
from mt_core.spark.streams.member_rows import MemberRows, packed
from mt_core.spark.streams.needed_files import check_batches
from mt_core.spark.streams.operators.foreign_state import foreign_state
from mt_core.spark.streams.operators.state_store import state_store_for
from mt_core.spark.streams.position import FIRST_ROWS, Position
from mt_core.spark.streams.query import StreamSessions, check_streamable, sources_of
from mt_core.spark.streams.sources.breakage import breakage, loss
from mt_core.spark.streams.sources.columns import SourceColumns
from mt_core.spark.streams.sources.ends import last_offset
from mt_core.spark.streams.sources.starts import check_start, options_of, rows_at, snapshots_of

BATCH = "batch"
_POLL_S = 0.02
_LASTING = (StreamBroken, Unsupported, DefinitionInvalid, TableProtected)


class StreamAttempt:
    """Runs a stream. Thread-safe. *sinks* contains an open sink for each table that is written."""

    def __init__(
        self,
        driver: SparkDriver,
        sessions: StreamSessions,
        definition: StreamDefinition,
        sinks: Mapping[TableName, Sink],
        number: int,
        watch: Check,
    ) -> None:
        self.number, self._watch = number, watch
        self._driver, self._sessions, self._definition = driver, sessions, definition
        self._sinks = sinks
        self._plan = definition.planned
        self._job, self._generation, self._jobs = uuid4().hex, driver.generation, driver.jobs_at_work()
        self._session: SparkSession | None = None
        # Spark's clone of the session. The batches run in it.
        self._batches: SparkSession | None = None
        self._rows = MemberRows()
        self._source_columns = SourceColumns(())
        self._query: StreamingQuery | None = None
        self._failure: MtError | None = None
        self._ending, self._pausing = threading.Event(), threading.Event()
        self._position = Position()
        # The offset at which the last bounded source ends, or None if a source is unbounded.
        self._last_offset: int | None = None
        # The names of the stateful operators from the sink to the sources, in the order of Spark's reports.
        self._operators: Sequence[str] = ()
        self._batch: int | None = None
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="stream-start", daemon=True)

    # ----------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Start the stream in a thread, which exits once Spark runs the batches."""
        self._thread.start()

    def fail(self, error: MtError) -> None:
        """Mark the attempt as failed with *error* before its start."""
        self._failure = error

    def stop(self) -> None:
        """Stop the stream. No batch is running when this returns.

        Raises EngineUnavailable if the JVM that ran the stream is lost.
        """
        self._ending.set()
        if self._query is None:
            self._driver.cancel(self._job)
        if self._thread.is_alive():
            self._thread.join()
        if self._query is not None and not self._is_lost:
            with self._driver.translating():
                self._query.stop()
        if self._batch is None and not self._is_lost:
            # The caller may delete the table next, so no task may still be writing its first rows.
            self._driver.wait_tasks(self._job)
        if not self._is_lost:
            for session in filter(None, (self._session, self._batches)):
                close_plugins(session, self._driver.session)

    def pause(self, *, drain: bool) -> None:
        """Stop between two batches.

        Blocks until the current batch ends. With *drain*, the stream first processes all rows that its
        sources have now.
        """
        if self._thread.is_alive():
            self._thread.join()
        query = self._query
        if query is not None and not self._is_lost:
            if drain:
                # A stream that fails here has also ended.
                with suppress(*SPARK_ERRORS):
                    query.processAllAvailable()
            self._finish_batch()
            # The next batch checks this flag before it writes anything.
            self._pausing.set()
            with self._driver.translating():
                while query.isActive and query.status["isTriggerActive"]:
                    time.sleep(_POLL_S)
        self.stop()

    def _finish_batch(self) -> None:
        """Wait until a batch that only some tables have is committed, because it prevents a savepoint."""
        has = [sink.batch for sink in self._sinks.values() if sink.batch is not None]
        # If the stream fails, the batch remains partial.
        with suppress(EngineError, EngineUnavailable):
            self.wait_batch(max(has, default=FIRST_ROWS))

    def wait_batch(self, batch: int) -> None:
        """Wait until *batch* is committed.

        Raises the stream's error if the stream fails first, or EngineUnavailable if it is lost.
        """
        while self._committed < batch:
            progress = self.progress()
            if not progress.running and self._committed < batch:
                raise EngineUnavailable(LOST) if progress.error is None else EngineError(progress.error)
            time.sleep(_POLL_S)

    def follow(self, other: StreamAttempt) -> None:
        """Continue the row counts of *other*, the attempt that this one resumes."""
        other._advance()
        self._position.rows_read, self._written = other._position.rows_read, other._written

    def progress(self) -> StreamProgress:
        """Return the progress of the stream. Does not raise errors."""
        if self._is_lost:
            return self._lost()
        with suppress(MtError), self._driver.translating():
            running = self._thread.is_alive() or (self._query is not None and self._query.isActive)
            self._advance()
            ends = self._ending.is_set() or self._pausing.is_set()
            error = None if running or ends else self._error()
            return StreamProgress(
                batch=self._batch,
                rows_read=self._position.rows_read,
                rows_written=self._written,
                offsets=self._position.offsets,
                states=self._position.states(self._operators),
                running=running,
                finished=error is None and self._position.has_ended(self._last_offset),
                error=None if error is None else str(error),
                final=isinstance(error, _LASTING),
                missing=isinstance(error, StreamFilesMissing),
            )
        return self._lost()

    def _lost(self) -> StreamProgress:
        return StreamProgress(batch=self._batch, bystander=not self._jobs.had(self._job))

    @property
    def keeps_state(self) -> bool:
        """True if the query retains rows or aggregates for later batches."""
        return any(check_streamable(member) for member in self._rows.members)

    @property
    def _committed(self) -> int:
        """The last batch in Spark's progress reports, which Spark makes after the commit."""
        self._advance()
        return self._position.batch

    @property
    def has_begun(self) -> bool:
        """True if every table has its first batch."""
        return all(sink.batch is not None for sink in self._sinks.values())

    @property
    def _is_lost(self) -> bool:
        """True if the JVM that ran the stream has been replaced."""
        return self._driver.generation != self._generation

    # -------------------------------------------------------------------------------------------------- start

    def _run(self) -> None:
        try:
            with self._driver.run_tagged(self._job, REFRESH_POOL, "start of a stream"):
                self._begin()
        except FunctionUncallable as error:
            # A module that is being loaded will be available soon, so retry as after any other failure.
            self._failure = error if error.loading else StreamFilesMissing.of(self._definition, error.message)
        except MtError as error:
            self._failure = error

    def _begin(self) -> None:
        definition = self._definition
        try:
            session = self._session = self._sessions.session(definition)
            members = [
                self._sessions.member(session, each, definition.settings) for each in definition.members
            ]
            self._rows = MemberRows(members=members, plans=self._plan.members)
            checkpoints = Checkpoints(session)
            if definition.restored_from is not None and not self._plan.has_checkpoint:
                checkpoints.restore(definition.restored_from, definition.checkpoint)
            began, self._batch = checkpoints.batches(definition.checkpoint)
            check_batches(definition, began, {table: sink.batch for table, sink in self._sinks.items()})
            checkpoints.take_layout(definition.checkpoint)
            if self._batch is not None:
                self._position.begin(self._batch, checkpoints.offsets(definition.checkpoint, self._batch))
            self._check_starts()
            self._source_columns = SourceColumns(sources_of(members))
            self._write_first_rows()
            options = options_of(self._plan.starts, definition.on_source_rewrite)
            changelogs = [member.changelog(options) for member in members]
            frames = self._rows.streaming(changelogs)
        except FunctionUncallable:
            raise
        except QueryFailed as cause:
            raise Unsupported(f"The query can no longer run: {cause.message}") from cause
        self._operators = [name for sink in self._rows.sinks(changelogs) for name in sink.keeping]
        self._check("start")
        rows = packed(frames)
        self._last_offset = last_offset(rows)
        tags = tagged(session.sparkContext, self._job, REFRESH_POOL, "stream")
        with active_session(session), tags, state_store_for(rows):
            self._query = (
                rows.writeStream.foreachBatch(self._take)
                .option("checkpointLocation", definition.checkpoint)
                .trigger(processingTime=f"{definition.interval_ms} milliseconds")
                .start()
            )

    def _write_first_rows(self) -> None:
        """Write the rows of the sources' starting snapshots to the tables that do not have them."""
        snapshots = snapshots_of(self._plan.starts)
        if not snapshots or self._plan.begun or self._batch is not None:
            return
        frames = self._rows.pinned(snapshots)
        for table, sink in self._sinks.items():
            if sink.batch is None:
                self._written += sink.publish(self._rows.of_table(table, frames), FIRST_ROWS, self._check)
        for source in sources_of(self._rows.members):
            if source.name in snapshots:
                self._position.rows_read += rows_at(source.table, snapshots[source.name])

    # ------------------------------------------------------------------------------------------------ batches

    def _take(self, rows: DataFrame, number: int) -> None:
        """Write a batch. Spark calls this, possibly again after a failure."""
        try:
            with self._driver.at_work(self._job), self._driver.translating():
                self._check(BATCH)
                if self._batches is None:
                    self._batches = rows.sparkSession
                    self._sessions.contexts.lend(self._batches, self._definition.settings)
                self._write(rows, number)
        except MtError as error:
            self._failure = self._failure or loss(sources_of(self._rows.members), error) or error
            raise
        self._batch = number

    def _write(self, rows: DataFrame, number: int) -> None:
        due = {
            table: sink for table, sink in self._sinks.items() if sink.batch is None or sink.batch < number
        }
        if not due:
            # The batch was published before the stream failed. Spark still requires its state to be read.
            rows.write.format("noop").mode("overwrite").save()
            return
        self._advance()
        self._check_starts()
        self._source_columns.check()
        several = len(self._rows.members) > 1
        if several:
            rows = rows.persist()
        try:
            frames = self._rows.of_batch(rows)
            for table, sink in due.items():
                self._written += sink.publish(self._rows.of_table(table, frames), number, self._check)
        finally:
            if several:
                rows.unpersist()

    def _check(self, step: str) -> None:
        """Raise Canceled if the stream must end. Published rows remain."""
        self._watch(step)
        if (self._ending.is_set() and step != PUBLISHED) or (self._pausing.is_set() and step == BATCH):
            raise Canceled("The stream was stopped.")

    def _check_starts(self) -> None:
        """Raise StreamBroken if a source has not been read yet and can no longer be read from its start."""
        if self._position.is_in_each_source:
            return
        for source in sources_of(self._rows.members):
            if source.name in self._plan.starts:
                check_start(source, self._plan.starts[source.name], self._position.snapshots)

    # ----------------------------------------------------------------------------------------------- progress

    def _advance(self) -> None:
        """Add the row counts of the batches since the last call."""
        if self._query is not None and self._batch is not None:
            self._position.advance(self._query, self._batch)

    def _error(self) -> MtError | None:
        """Return the error that ended the stream, or None if Spark was lost."""
        failure = self._failure
        if failure is None and self._query is not None:
            # PySpark's exception has no cause, and its message contains the whole plan.
            ended_by = self._query._jsq.exception()
            if ended_by.isDefined() and self._session is not None:
                cause = convert_exception(ended_by.get().cause())
                with active_session(self._session):
                    failure = breakage(
                        self._session, sources_of(self._rows.members), self._plan.starts, cause
                    )
                failure = failure or foreign_state(thrown_by(cause)) or translate(cause)
        self._failure = failure
        return None if isinstance(failure, EngineUnavailable) else failure
