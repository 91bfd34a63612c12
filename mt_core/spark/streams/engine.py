"""The stream engine on Spark: prepares, starts, monitors and stops streams, and copies their checkpoints.

The durable state of a stream is its definition, its checkpoint and the job's mark in each table.
`_attempts` has only the streams of this process. Every method therefore works from the definition and uses
a local attempt if there is one. Another process that has taken over the job can repeat the call.

Attempts are fenced by the tables. `start` opens each table with the attempt's number before the query
starts, and `stop` closes the tables after the query has ended. After that, no attempt can publish, not even
one in a process without a connection to the registry. A savepoint is taken only between two batches that
every table has, because resuming a savepoint from the middle of a batch would lose or repeat rows. One lock
per job (`_turns`) serializes these steps: stopping one stream may take as long as its batch and must not
delay others.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from contextlib import suppress

from pyspark.sql import SparkSession

from mt_core.errors import EngineError, MtError, QueryFailed, Unsupported
from mt_core.model.stream import StreamDefinition, StreamProgress, TableName
from mt_core.plans.compiled import Topology
from mt_core.plans.states import check_policies
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.connectors.sink import Check, Sink, SinkAttempt
from mt_core.spark.connectors.stream_errors import StreamBroken, StreamFilesMissing
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.file_systems import check_file_system
from mt_core.spark.driver.session_functions import FunctionUncallable
from mt_core.spark.files.jar_copies import JarCopies
from mt_core.spark.streams.attempt import StreamAttempt
from mt_core.spark.streams.checkpoints import Checkpoints
from mt_core.spark.streams.needed_files import check_batches, check_files
from mt_core.spark.streams.preparation import PreparedStream, prepared_stream
from mt_core.spark.streams.query import StreamSessions, check_stateless
from mt_core.spark.streams.savepoints import savepoint_facts
from mt_core.spark.streams.sinks.kinds import created_by, sinks_of
from mt_core.streaming.engine import StreamEngine

log = logging.getLogger(__name__)


class SparkStreams(StreamEngine):
    """Runs streams as Structured Streaming queries in the gateway's Spark."""

    def __init__(
        self,
        spark: SparkContexts,
        *,
        connectors: ConnectorSource = no_connectors,
        jars: JarCopies | None = None,
        watch: Check = lambda _step: None,
    ) -> None:
        self._driver, self._catalogs, self._working = spark.driver, spark.catalogs, spark.working
        self._table_catalogs = spark.table_catalogs
        self._connectors, self._jars = connectors, jars or JarCopies()
        self._sessions = StreamSessions(driver=spark.driver, contexts=spark.queries, connectors=connectors)
        self._watch = watch
        self._attempts: dict[str, StreamAttempt] = {}
        # The final progress of stopped streams.
        self._stopped: dict[str, StreamProgress] = {}
        # Jobs whose last attempt in this process failed because a file was missing.
        self._jobs_missing_files: set[str] = set()
        # One lock per job, because stopping one stream must not delay others.
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def prepare(self, definition: StreamDefinition, job_id: str) -> StreamDefinition:
        with self._driver.translating(), self._sessions.passing(definition) as session:
            check_file_system(session, definition.checkpoint, f"Checkpoint {definition.checkpoint}")
            if definition.restored_from is not None:
                check_file_system(session, definition.restored_from, f"Savepoint {definition.restored_from}")
            prepared = self._prepared(session, definition)
            if any(each.state_ttls is not None for each in definition.members):
                check_policies([each.state_ttls for each in definition.members], prepared.topology(session))
            self._jars.keep(definition.jars, job_id)
            checkpoints = Checkpoints(session)
            if definition.restored_from is not None:
                checkpoints.restore(definition.restored_from, definition.checkpoint, prepared.order)
            checkpoints.begin(definition.checkpoint, job_id)
            return prepared.definition

    def topology(self, definition: StreamDefinition) -> Topology:
        with self._driver.translating(), self._sessions.passing(definition) as session:
            return self._prepared(session, definition).topology(session)

    def _prepared(self, session: SparkSession, definition: StreamDefinition) -> PreparedStream:
        members = [
            self._sessions.member(session, member, definition.settings) for member in definition.members
        ]
        return prepared_stream(session, definition, members, self._table_catalogs, self._connectors)

    def check(self, definition: StreamDefinition) -> None:
        with self._driver.translating(), self._sessions.passing(definition) as session:
            for member in definition.members:
                check_stateless(self._sessions.member(session, member, definition.settings))

    def start(self, job_id: str, definition: StreamDefinition, attempt: int) -> None:
        with self._turns[job_id]:
            running = self._attempts.get(job_id)
            if running is not None and running.number == attempt and running.progress().running:
                return
            if running is not None:
                running.stop()
            sinks = self._sinks(job_id, definition, attempt)
            started = StreamAttempt(self._driver, self._sessions, definition, sinks, attempt, self._watch)
            try:
                with self._working() as session:
                    check_files(Checkpoints(session), definition)
                    for sink in sinks.values():
                        sink.open()
                started.start()
            except (StreamBroken, StreamFilesMissing) as error:
                started.fail(error)
            self._attempts[job_id] = started
            self._stopped.pop(job_id, None)
            self._jobs_missing_files.discard(job_id)

    def progress(self, job_id: str) -> StreamProgress:
        attempt = self._attempts.get(job_id)
        return self._stopped.get(job_id, StreamProgress()) if attempt is None else attempt.progress()

    def stop(self, job_id: str, definition: StreamDefinition) -> None:
        with self._turns[job_id]:
            attempt = self._attempts.get(job_id)
            if attempt is not None:
                if attempt.progress().missing:
                    self._jobs_missing_files.add(job_id)
                attempt.stop()
            self._close(job_id, definition)
            self._discard_attempt(job_id)

    def savepoint(
        self, job_id: str, definition: StreamDefinition, folder: str, *, drain: bool = False
    ) -> str:
        with self._turns[job_id]:
            attempt = self._attempts.get(job_id)
            with self._working() as session:
                check_files(Checkpoints(session), definition)
                if attempt is not None and drain:
                    Checkpoints(session).check_writable(folder)
            if attempt is not None:
                attempt.pause(drain=drain)
                if drain and attempt.keeps_state:
                    attempt = self._end_time(job_id, definition, attempt)
            with self._working() as session:
                sinks = self._sinks(job_id, definition)
                tables = [sink.last_batch() for sink in sinks.values() if sink.records_batch]
                began, committed = Checkpoints(session).batches(definition.checkpoint)
                self._discard_attempt(job_id)
                # Tables of other connectors cannot report their last batch. The attempt can, if it ran in
                # this process.
                unknown = None in tables or len(tables) < len(sinks)
                begun = (
                    definition.planned.begun
                    or committed is not None
                    or (attempt.has_begun if attempt is not None else not unknown)
                )
                in_batch = began != committed and any(
                    batch is not None and batch >= (began or 0) for batch in tables
                )
                if in_batch or (not begun and any(batch is not None for batch in tables)):
                    raise EngineError(
                        f"Job {job_id} failed in the middle of a batch, and has to finish it first; "
                        "stop it again later."
                    )
                self._close(job_id, definition)
                facts = savepoint_facts(definition.planned, begun=begun)
                Checkpoints(session).save(definition.checkpoint, folder, facts)
                return folder

    def created_rows(self, job_id: str, definition: StreamDefinition) -> int | None:
        with self._working():
            created = created_by(self._attempt(job_id, definition))
            return None if created is None else created.rows()

    def missing(self, job_id: str, definition: StreamDefinition) -> str | None:
        try:
            with self._working() as session:
                checkpoints, batches = Checkpoints(session), dict[TableName, int | None]()
                check_files(checkpoints, definition)
                for table, sink in self._sinks(job_id, definition).items():
                    with suppress(StreamBroken):
                        batches[table] = sink.last_batch()
                check_batches(definition, checkpoints.batches(definition.checkpoint)[0], batches)
            if job_id in self._jobs_missing_files:
                # The missing file may be that of a function, which only analysing the query detects.
                with self._driver.translating(), self._sessions.passing(definition) as session:
                    for member in definition.members:
                        _ = self._sessions.member(session, member, definition.settings).analysed
        except StreamFilesMissing as error:
            return error.message
        except FunctionUncallable as error:
            return StreamFilesMissing.of(definition, error.message).message
        except (QueryFailed, Unsupported) as error:
            # The error of the next start will say how to fix this.
            log.info("job %s: %s", job_id, error, extra={"action": "stream_not_analysed"})
        return None

    def discard(self, job_id: str, definition: StreamDefinition, *, drop: bool) -> None:
        with self._turns[job_id], self._working() as session:
            created = created_by(self._attempt(job_id, definition))
            if created is None or created.discard(drop=drop):
                Checkpoints(session).delete(definition.checkpoint)

    def forget(self, job_id: str, definition: StreamDefinition) -> None:
        with self._working() as session:
            for sink in self._sinks(job_id, definition).values():
                sink.forget()
            Checkpoints(session).delete(definition.checkpoint)
        self._jars.forget(definition.jars, job_id)
        self._stopped.pop(job_id, None)
        self._jobs_missing_files.discard(job_id)

    # ----------------------------------------------------------------------------------------------- internal

    def _end_time(self, job_id: str, definition: StreamDefinition, paused: StreamAttempt) -> StreamAttempt:
        """Run a paused stream to the end of event time and return the new attempt.

        This makes windows and joins emit their remaining rows.
        """
        with self._working() as session:
            last = Checkpoints(session).add_last_batch(definition.checkpoint)
            if last is None:
                return paused
            sinks = self._sinks(job_id, definition, paused.number)
            for sink in sinks.values():
                sink.open()
        attempt = StreamAttempt(self._driver, self._sessions, definition, sinks, paused.number, self._watch)
        attempt.follow(paused)
        self._attempts[job_id] = attempt
        attempt.start()
        try:
            attempt.wait_batch(last)
        except MtError:
            attempt.stop()
            with self._working() as session:
                Checkpoints(session).take_back(definition.checkpoint, last)
            raise
        attempt.pause(drain=False)
        return attempt

    def _discard_attempt(self, job_id: str) -> None:
        attempt = self._attempts.get(job_id)
        if attempt is not None:
            self._stopped[job_id] = attempt.progress()
            self._attempts.pop(job_id)

    def _close(self, job_id: str, definition: StreamDefinition) -> None:
        with self._working():
            for sink in self._sinks(job_id, definition).values():
                sink.close()

    def _sinks(self, job_id: str, definition: StreamDefinition, number: int = 0) -> dict[TableName, Sink]:
        return sinks_of(self._attempt(job_id, definition, number))

    def _attempt(self, job_id: str, definition: StreamDefinition, number: int = 0) -> SinkAttempt:
        return SinkAttempt(
            job_id=job_id,
            number=number,
            definition=definition,
            catalogs=self._catalogs,
            table_catalogs=self._table_catalogs,
            connectors=self._connectors,
        )
