"""Tables of the tests of streams, and the streams between them, on a real Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from mt_core.clock import SystemClock
from mt_core.model.stream import StreamDefinition, StreamMember, StreamProgress
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.session import Session
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.connectors.sink import Check
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.ctas.table_creations import reserve
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.spark.streams.engine import SparkStreams
from mt_core.sql.parser import ReadStatement
from tests.support.memory_registry import MemoryRegistry
from tests.support.stream_engine_contract import wait_while_streams_run

INTERVAL_MS = 100
CREATE = "CREATE TABLE copies AS SELECT * FROM flights"
_numbers = count(1)


class RecordedStreams(SparkStreams):
    """The engine, and the definition of each stream that it has started."""

    def __init__(
        self,
        driver: SparkDriver,
        *,
        watch: Check = lambda _step: None,
        connectors: ConnectorSource = no_connectors,
    ) -> None:
        super().__init__(SparkContexts(driver), watch=watch, connectors=connectors)
        self.started: dict[str, StreamDefinition] = {}

    def start(self, job_id: str, definition: StreamDefinition, attempt: int) -> None:
        self.started[job_id] = definition
        super().start(job_id, definition, attempt)


class StreamWorld:
    """A source and a sink of one column each, in a namespace of their own."""

    def __init__(self, driver: SparkDriver, folder: Path, *, watch: Check = lambda _step: None) -> None:
        self.driver, self._folder = driver, folder
        self.connectors = ConnectorTables(MemoryRegistry(SystemClock()))
        self.engine = RecordedStreams(driver, watch=watch, connectors=self.connectors.all)
        self.namespace = f"streams_{next(_numbers)}"
        driver.session.sql(f"CREATE NAMESPACE lake.{self.namespace}")
        self.reconnect()
        self.sql("CREATE TABLE flights (row STRING)")
        self.sql("CREATE TABLE arrivals (row STRING)")

    def reconnect(self) -> None:
        """Begin a session, also after the loss of a JVM."""
        self.session = self.driver.new_session()
        self.sql(f"USE lake.{self.namespace}")

    def sql(self, text: str) -> list[Any]:
        return self.session.sql(text).collect()

    def create(self, text: str) -> None:
        """Perform a CREATE TABLE with a connector, as a gateway does."""
        statements, request = self._gateway()
        creations = ConnectorTableStatements(engine=statements, tables=self.connectors)
        assert creations.answer(ReadStatement(text), request) is not None

    def reads_stream(self, text: str) -> bool:
        statements, request = self._gateway()
        return statements.reads_stream(request.context, member(text))

    def explain(self, *members: StreamMember) -> str:
        statements, request = self._gateway()
        return statements.explain_streams(request.context, members, (), "simple")

    def _gateway(self) -> tuple[SparkStatements, CatalogRequest]:
        """Return what performs the statements of a new session, and the session."""
        statements = SparkStatements(SparkContexts(self.driver), connectors=self.connectors.all)
        session = Session(
            self.namespace, name=None, defaults={}, properties={}, opened_at=SystemClock().now()
        )
        request = CatalogRequest(session=session, context=session.context(), job_id=uuid4().hex)
        statements.execute(request.context, f"USE lake.{self.namespace}", job_id=uuid4().hex)
        return statements, request

    def definition(self, checkpoint: str = "c", *texts: str, **changes: Any) -> StreamDefinition:
        """Return a definition that is not prepared; without *texts* it copies all rows."""
        definition = StreamDefinition(
            members=tuple(map(member, texts or ("INSERT INTO arrivals SELECT * FROM flights",))),
            catalog="lake",
            namespace=(self.namespace,),
            zone="UTC",
            checkpoint=str(self._folder / checkpoint),
            interval_ms=INTERVAL_MS,
        )
        return replace(definition, **changes)

    def creation(self, job_id: str, text: str = CREATE, **changes: Any) -> StreamDefinition:
        """Return a definition, not prepared, of a job that creates a table."""
        with active_session(self.session):
            reservation = reserve(self.session, self.driver.session, text, job_id)
        return self.definition(job_id, text, creates=reservation, **changes)

    def start(self, *texts: str, **changes: Any) -> tuple[str, StreamDefinition]:
        """Prepare and start a stream; return the id of its job, and its definition."""
        job_id = uuid4().hex
        definition = self.engine.prepare(self.definition(job_id, *texts, **changes), job_id)
        self.engine.start(job_id, definition, 1)
        return job_id, definition

    def stop_all(self) -> None:
        for job_id, definition in self.engine.started.items():
            self.engine.stop(job_id, definition)

    def refused(self) -> StreamDefinition:
        return self.definition("refused", "INSERT INTO arrivals SELECT max(row) FROM flights")

    def folder(self, name: str) -> str:
        return str(self._folder / "savepoints" / name)

    def append(self, *rows: str) -> None:
        values = ", ".join(f"('{row}')" for row in rows)
        self.sql(f"INSERT INTO flights VALUES {values}")

    def rows(self, table: str = "arrivals") -> Sequence[Any]:
        return sorted(row[0] for row in self.sql(f"SELECT * FROM {table}"))

    def take_checkpoint(self, definition: StreamDefinition) -> Callable[[], object]:
        """Take a checkpoint away, as another machine does not have it; return what puts it back."""
        checkpoint = Path(definition.checkpoint)
        taken = checkpoint.rename(checkpoint.with_suffix(".taken"))

        def put_back() -> None:
            # Whatever is made there meanwhile is no checkpoint of the job.
            shutil.rmtree(checkpoint, ignore_errors=True)
            taken.rename(checkpoint)

        return put_back

    def work(self) -> None: ...

    def wait_rows(self, expected: Sequence[Any], table: str = "arrivals") -> None:
        """Wait until *table* has as many rows, and expect exactly these."""
        self.wait(lambda: len(self.rows(table)) >= len(expected))
        assert self.rows(table) == sorted(expected)

    def wait_end(self, job_id: str) -> StreamProgress:
        """Wait until the stream has ended by itself; return how."""
        self.wait(lambda: not self.engine.progress(job_id).running)
        return self.engine.progress(job_id)

    def wait(self, condition: Callable[[], bool]) -> None:
        wait_while_streams_run(
            condition, lambda: [self.engine.progress(job_id) for job_id in [*self.engine.started]]
        )


def member(text: str) -> StreamMember:
    """Return an INSERT without hints."""
    return StreamMember(text=text)
