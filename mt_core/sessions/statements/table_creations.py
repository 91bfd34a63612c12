"""Tables created from queries: one job at a time for each table, with cleanup after a failure."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from mt_core.base.identifiers import display_name
from mt_core.errors import EngineUnavailable, MtError, RequestInvalid, TableBusy
from mt_core.jobs.hooks import Body, JobStatusHook
from mt_core.jobs.store import JobStore
from mt_core.model.job import Job, JobEvent, JobHook
from mt_core.model.reservation import Atomicity, Reservation
from mt_core.sessions.operations.operation import POLL_S
from mt_core.sessions.ports import CreationEngine, SessionContext, StatementResult

log = logging.getLogger(__name__)


class TableCreations:
    """Runs CREATE and REPLACE TABLE … AS. Thread-safe.

    If the engine is lost, cleanup waits for up to *engine_timeout_s* for its restart.
    """

    def __init__(self, engine: CreationEngine, store: JobStore, *, engine_timeout_s: float) -> None:
        self._engine, self._store, self._engine_timeout_s = engine, store, engine_timeout_s
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str, ...], str] = {}
        self._pause = threading.Event()

    def run(self, context: SessionContext, text: str, job_id: str) -> StatementResult:
        """Create the table and publish it in a single last step.

        Raises TableBusy naming another job that creates the same table.
        """
        reservation = self._engine.reserve(context, text, job_id=job_id)
        if reservation is None:
            return self._engine.execute(context, text, job_id=job_id)
        with self.reserved(reservation):
            # Store the reservation before anything is written. If this process is killed, another one cleans
            # up.
            done, body = (JobEvent.CREATED,), reservation.to_json()
            self._store.attach(job_id, JobHook(name=TableCreationHook.identifier, body=body, done=done))
            try:
                return self._engine.execute(context, text, job_id=job_id, reservation=reservation)
            except MtError as error:
                if self._settled(reservation, error) and reservation.atomicity is Atomicity.ATOMIC:
                    # The commit succeeded although the job was cancelled or Spark was lost.
                    return StatementResult(is_query=False, rows=None)
                raise

    def settle(self, reservation: Reservation) -> None:
        """Clean up after an ended job that did not publish its table.

        Raises TableBusy if another job creates the table.
        """
        with self._reserved(reservation):
            self._engine.settle(reservation)

    @contextmanager
    def reserved(self, reservation: Reservation) -> Iterator[None]:
        """Reserve the table during the block.

        Raises TableBusy naming the batch or stream job that creates it.
        """
        with self._reserved(reservation):
            detached = self._store.creator(reservation.table)
            if detached is not None and detached != reservation.job_id:
                raise _busy(reservation, detached)
            yield

    @contextmanager
    def _reserved(self, reservation: Reservation) -> Iterator[None]:
        table, job_id = reservation.table, reservation.job_id
        with self._lock:
            first = self._jobs.setdefault(table, job_id)
        if first != job_id:
            raise _busy(reservation, first)
        try:
            yield
        finally:
            with self._lock:
                del self._jobs[table]

    def _settled(self, reservation: Reservation, error: MtError) -> bool:
        """Return whether the table was published although its job raised *error*. Return False if unknown."""
        waited_s = 0.0
        while waited_s < self._engine_timeout_s:
            try:
                if self._engine.wait_ready(POLL_S):
                    return self._engine.settle(reservation)
            except EngineUnavailable as cause:
                error = cause
                self._pause.wait(POLL_S)
            except MtError as cause:
                error = cause
                break
            waited_s += POLL_S
        text = "the data that job %s wrote for table %s was not removed: %s"
        table = display_name(reservation.table)
        log.error(
            text, reservation.job_id, table, error, extra={"action": "creation_not_settled", "table": table}
        )
        return False


def _busy(reservation: Reservation, first: str) -> TableBusy:
    name = display_name(reservation.table)
    return TableBusy(
        f"Table {name} is being created by job {first}; wait for it, or STOP JOB '{first}'.",
        table=name,
        job=first,
    )


class TableCreationHook(JobStatusHook):
    """Cleans up after a job that ended without publishing its table, if its statement could not do so."""

    identifier = "table-creation"
    longest_pause = timedelta(minutes=1)

    def __init__(self, creations: TableCreations) -> None:
        self._creations = creations

    def body_of(self, properties: Mapping[str, str]) -> Body:
        raise RequestInvalid(
            f"Hook {self.identifier} is attached to CREATE TABLE AS automatically; remove it from job.hooks."
        )

    def on_created(self, job: Job, body: Body) -> None:
        """Do nothing, because *body* was stored before anything was written."""

    def on_finished(self, job: Job, body: Body) -> None:
        """Do nothing, because the table is published."""

    def on_failed(self, job: Job, body: Body, error: str) -> None:
        self._settle(body)

    def on_canceled(self, job: Job, body: Body) -> None:
        self._settle(body)

    def _settle(self, body: Body) -> None:
        self._creations.settle(Reservation.from_json(body))
