"""Query results that are read while Spark is still producing rows.

Clients fetch pages in their own threads, whereas Spark produces rows in jobs of unpredictable length. A
result therefore has one producer, a thread that moves Arrow batches from Spark to a spool, and any number
of readers that fetch pages from the spool. One condition guards both. Small results are read by the thread
that ran the statement, which saves a thread. The producer waits between jobs while the spool is full,
because the JVM buffers the rows of a started job until they are read. A result ends exactly once, with or
without an error, and rows received before the error can still be read. Rows are stored in Arrow format
until a page is encoded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from mt_core.base.background import start_thread
from mt_core.base.rowset import Column, PageForm, RowKind
from mt_core.errors import Canceled, MtError
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.arrow import ResultForm, arrow_frame
from mt_core.spark.results.batches import QueryJob, batches
from mt_core.spark.results.local_rows import local_batches
from mt_core.spark.results.parts import DEFAULT_SIZES, PartSizes
from mt_core.spark.results.spool import MEBIBYTE, Spool, Spools

# The thread that ran the statement reads results up to this size, in bytes. Another thread would only take
# more time.
INLINE_BYTES = 4 * MEBIBYTE
# The maximum size of a page in bytes, regardless of its number of rows.
PAGE_BYTES = 32 * MEBIBYTE
Batches = Generator[pa.RecordBatch | None]
Ended = Callable[[MtError | None], None]


class StreamedRows:
    """The rows of one query, which a thread reads from Spark while others fetch pages. Thread-safe.

    *source* yields batches, and None before a batch that may be slow. *stop* ends the query. `running` means
    that the query may produce more rows. `stalled` means that it waits for a reader, which is always true for
    an *endless* query.
    """

    def __init__(
        self,
        form: ResultForm,
        spool: Spool,
        source: Batches,
        stop: Callable[[], object],
        *,
        endless: bool = False,
    ) -> None:
        self._form, self._spool, self._source, self._stop = form, spool, source, stop
        self.endless = endless
        self.columns: Sequence[Column] = form.columns
        self.changelog = form.changelog
        self._changed = threading.Condition()
        self.running, self.stalled = True, endless
        # True if the next batch requires another job. Used only by the reading thread.
        self._between_jobs = False
        self._error: MtError | None = None
        self._callbacks: list[Ended] = []

    def begin(self) -> None:
        """Read until the first rows are received or the query ends, and continue in a new thread.

        Raises the query's error.
        """
        try:
            done = self._read(patient=False)
        except MtError as error:
            self._source.close()
            self._end(error)
            self.close()
            raise
        if done:
            self._end(None)
        else:
            self.begin_in_background()

    def begin_in_background(self) -> None:
        """Read in a new thread, because the first rows may be late or never be received."""
        start_thread("result", self._read_on)

    def available(self, start: int, size: int, timeout_s: float) -> int:
        """Wait until row *start* is available or the query has ended, for up to *timeout_s* seconds.

        Return the number of rows, up to *size*, that the next page can have.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._spool.rows > start or not self.running, timeout_s)
            return self._spool.fitting(start, size, PAGE_BYTES)

    def page(self, start: int, size: int) -> list[list[Any]]:
        """Return *size* rows starting at row *start*, or fewer at the end. Raises the query's error."""
        return self._form.rows(self._take(start, size))

    def kinds(self, start: int, size: int) -> list[RowKind]:
        """Return the row kinds of the rows that `page` returns."""
        return self._form.kinds(self._take(start, size))

    def encoded(self, start: int, size: int, form: PageForm) -> bytes | memoryview:
        """Return the rows that `page` returns, as JSON text or as an Arrow IPC stream."""
        batches = self._take(start, size)
        return self._form.stream(batches) if form is PageForm.ARROW else self._form.json(batches)

    def release(self, before: int) -> None:
        """Release the rows before row *before*, which cannot be read afterwards."""
        with self._changed:
            self._spool.release(before)
            self._changed.notify_all()

    def on_end(self, callback: Ended) -> None:
        """Call *callback* once when the query ends, or now if it has ended, with its error or None."""
        with self._changed:
            if self.running:
                self._callbacks.append(callback)
                return
        callback(self._error)

    def abort(self, error: MtError) -> None:
        """End the query if it is running. Reading the missing rows then raises *error*."""
        if self._end(error):
            self._stop()

    def close(self) -> None:
        """End the query if it is running, and release its rows."""
        self.abort(Canceled("The result was closed before its query had ended."))
        with self._changed:
            self._spool.close()

    def _take(self, start: int, size: int) -> list[pa.RecordBatch]:
        with self._changed:
            self._changed.wait_for(lambda: self._spool.rows >= start + size or not self.running)
            batches = self._spool.read(start, size)
            if self._error is not None and sum(batch.num_rows for batch in batches) < size:
                raise self._error
            return batches

    def _read_on(self) -> None:
        error: MtError | None = MtError(
            "The rows of the result could not be read; the gateway's log has the details."
        )
        try:
            self._read(patient=True)
            error = None
        except MtError as cause:
            error = cause
        finally:
            # Without this, unread rows would remain in the JVM as long as this result exists.
            self._source.close()
            self._end(error)

    def _read(self, *, patient: bool) -> bool:
        """Read rows from Spark and return whether the query has ended.

        Unless *patient*, returns early if rows are available and either the next batch may be slow or more
        than `INLINE_BYTES` were read. Blocks while the spool is full. Raises Canceled if the result is
        closed.
        """
        received = 0
        if self._between_jobs:
            self._await_room()
        for batch in self._source:
            self._between_jobs = batch is None
            if batch is not None:
                with self._changed:
                    self._check_running()
                    self._spool.append(batch)
                    self._changed.notify_all()
                received += batch.nbytes
            if not patient and self._spool.rows and (batch is None or received > INLINE_BYTES):
                return False
            if batch is None:
                self._await_room()
        return True

    def _await_room(self) -> None:
        """Wait for space in the spool before the next job, whose rows the JVM buffers until they are read.

        Without this, many unread results could exhaust the JVM's memory.
        """
        with self._changed:
            self.stalled = self.endless or self._spool.full
            self._changed.wait_for(lambda: not self._spool.full or not self.running)
            self.stalled = self.endless
            self._check_running()

    def _check_running(self) -> None:
        if not self.running:
            raise self._error or Canceled("The query of the result was ended.")

    def _end(self, error: MtError | None) -> bool:
        """Record the end of the query with *error*. Return False if it had already ended."""
        with self._changed:
            if not self.running:
                return False
            self.running, self._error = False, error
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(error)
        return True


def fetch(
    driver: SparkDriver, frame: DataFrame, job: QueryJob, spools: Spools, sizes: PartSizes = DEFAULT_SIZES
) -> StreamedRows:
    """Run *frame* and return its rows when the first of them are available or the query has ended.

    The caller must run this within `SparkDriver.run_tagged`; later work is tagged here. Raises the query's
    error, and Unsupported before the query runs if a column has no JSON form.
    """
    form, shown = ResultForm(frame.schema), arrow_frame(frame)
    source = local_batches(shown, form.schema) or batches(driver, shown, form.schema, job, sizes)
    rows = StreamedRows(form, spools.new(form.schema), source, lambda: driver.cancel(job.job_id))
    rows.begin()
    return rows
