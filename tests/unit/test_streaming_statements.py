from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import wait

import pytest

from mt_core.errors import Canceled, EngineError, MtError, Unsupported
from mt_core.jobs.store import JobStore
from mt_core.model.job import Job, JobStatus
from mt_core.model.stream import OnSourceRewrite, SourceHint, StreamDefinition, StreamMember, StreamState
from mt_core.model.stream_plan import StreamPlan
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.operations.operation import Operation, OperationResult, OperationStatus
from mt_core.sessions.properties.property_values import check_set
from mt_core.sessions.properties.stream_properties import StreamDefaults, StreamProperties
from mt_core.sessions.session import Session
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sessions.statements.table_creations import TableCreations
from mt_core.sessions.streaming.streaming_statements import StreamingStatements, Streams
from mt_core.sessions.temporary_objects import TemporaryObject
from mt_core.sql.parser import ReadStatement
from mt_core.streaming.owner import StreamOwner
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_commands import FakeRuns
from tests.support.fake_statements import FakeStatementEngine
from tests.support.fake_streams import FakeStreams
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import NOON

INSERT = "INSERT INTO arrivals SELECT * FROM flights /*+ OPTIONS('streaming'='false') */"
DEFAULTS = StreamDefaults(checkpoints="/home/checkpoints", savepoints="/home/savepoints")
JOB = "f" * 32


class World:
    """A session, and what submits the streaming statements that it sends."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        clock = FakeClock(NOON)
        self.streams, self.engine = FakeStreams(), FakeStatementEngine()
        self.store = JobStore(MemoryRegistry(clock), owner="mine", clock=clock)
        self.owner = StreamOwner(self.store, self.streams, clock=clock, ready=lambda: True)
        jobs = Jobs(clock, FakeRuns(clock), self.store, streams=self.owner)
        creations = TableCreations(self.engine, self.store, engine_timeout_s=1)
        self.statements = StreamingStatements(
            streams=Streams(engine=self.streams, owner=self.owner, defaults=DEFAULTS),
            engine=self.engine,
            spark=SparkWork(engine=self.engine, jobs=jobs, creations=creations, engine_timeout_s=1),
            store=self.store,
            clock=clock,
        )
        self.session = Session("s", name=None, defaults={}, properties=properties or {}, opened_at=NOON)
        self.operation = Operation("o", ReadStatement(INSERT), NOON, planned_job_id=JOB, caller="ann")
        self.operation.advance(OperationStatus.PENDING)
        self.operation.advance(OperationStatus.RUNNING)

    def submit(self, *statements: str) -> OperationResult:
        task = Task(session=self.session, operation=self.operation, properties={})
        return self.statements.submit(task, [ReadStatement(each) for each in statements])

    def job(self) -> Job:
        job = self.store.get(JOB)
        assert job is not None
        return job

    def submit_beside(self) -> list[OperationResult | MtError]:
        """Submit in a thread, and return what comes of it once the job has ended."""
        outcome: list[OperationResult | MtError] = []

        def submit() -> None:
            try:
                outcome.append(self.submit(INSERT))
            except MtError as error:
                outcome.append(error)

        thread = threading.Thread(target=submit)
        thread.start()
        while not outcome:
            wait(self.owner.pass_over())
            self.on_pass()
        thread.join()
        return outcome

    def on_pass(self) -> None:
        """What happens after each pass of the owner."""


def test_a_statement_that_is_cancelled_while_its_stream_is_prepared_leaves_no_checkpoint() -> None:
    world = World()
    world.streams.before_prepare = world.operation.cancel

    with pytest.raises(Canceled):
        world.submit(INSERT)

    assert (world.streams.checkpoints, world.store.get(JOB)) == ({}, None)


def test_a_statement_becomes_a_job_with_all_that_it_needs_of_its_session() -> None:
    world = World({
        "spark.sql.shuffle.partitions": "2",
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": "s3://b/c/",
        "execution.savepoint.path": "s3://b/old",
        "execution.state-recovery.path": "s3://b/new",
        "streaming.on-source-rewrite": "IGNORE",
    })  # fmt: skip
    world.streams.savepoints["s3://b/new"] = (0, 0)
    world.session.jars = ("udf.jar",)
    view = "CREATE TEMPORARY VIEW late AS SELECT 1"
    late = TemporaryObject(name="late", is_function=False, text=view, catalog="lake", namespace=("default",))
    world.session.temporary, world.engine.temporary_relations = (late,), frozenset({"late"})

    result = world.submit(INSERT)

    assert (result.rows.page(0, 10), result.job_id) == ([[JOB]], JOB)
    blanked = "INSERT INTO arrivals SELECT * FROM flights".ljust(len(INSERT))
    hint = SourceHint(start=35, stop=42, options={"streaming": "false"})
    assert world.job().definition == StreamDefinition(
        members=(StreamMember(text=blanked, hints=(hint,)),),
        catalog="lake",
        namespace=("default",),
        zone="UTC",
        checkpoint=f"s3://b/c/{JOB}",
        settings=world.session.overrides,
        temporary=(view,),
        jars=("/copies/udf.jar",),
        restored_from="s3://b/new",
        interval_ms=500,
        on_source_rewrite=OnSourceRewrite.IGNORE,
        plan=StreamPlan(),
        reads=(("lake", "default", "flights"),),
        writes=(("lake", "default", "arrivals"),),
    )
    job = world.job()
    assert (job.kind, job.name, job.status) == ("INSERT", "insert-arrivals", JobStatus.CREATED)
    assert (job.session, job.user, job.target) == ("s", "ann", "lake.default.arrivals")
    assert (job.statement, job.checkpoint, job.stream) == (INSERT, f"s3://b/c/{JOB}", StreamState())


def test_a_statement_set_is_one_job_with_a_member_for_each_statement() -> None:
    world = World()

    world.submit(INSERT, "INSERT INTO arrivals SELECT 1")

    definition = world.job().definition
    assert definition is not None
    assert (world.job().kind, len(definition.members)) == ("STATEMENT SET", 2)
    assert (definition.checkpoint, definition.interval_ms) == (f"/home/checkpoints/{JOB}", 1000)
    assert (definition.restored_from, definition.on_source_rewrite) == (None, OnSourceRewrite.FAIL)


def test_a_query_that_cannot_be_a_stream_is_refused_and_there_is_no_job() -> None:
    world = World()
    refused = ReadStatement(INSERT).text
    world.streams.refusals[refused] = Unsupported("It updates rows.")

    with pytest.raises(Unsupported, match="It updates rows"):
        world.submit(INSERT)

    assert world.store.newest(10) == []


def test_with_dml_sync_a_statement_ends_with_its_job_and_says_how_many_rows_it_wrote() -> None:
    world = World({"table.dml-sync": "true"})
    world.streams.source += ["x", "y"]

    def finish() -> None:
        if JOB in world.streams.running():
            world.streams.run_batches()
            world.streams.finish(JOB)

    world.on_pass = finish  # type: ignore[method-assign]
    [result] = world.submit_beside()

    assert isinstance(result, OperationResult)
    assert (result.affected_rows, world.job().status) == (2, JobStatus.FINISHED)


def test_with_dml_sync_a_statement_fails_as_its_job_does() -> None:
    world = World({"table.dml-sync": "true"})

    def fail() -> None:
        if JOB in world.streams.running():
            world.streams.fail(JOB, "the table was dropped", final=True)

    world.on_pass = fail  # type: ignore[method-assign]
    [error] = world.submit_beside()

    assert isinstance(error, EngineError)
    assert str(error) == f"Job {JOB} failed: the table was dropped"


def test_with_dml_sync_a_cancel_of_the_operation_stops_the_job() -> None:
    world = World({"table.dml-sync": "true"})

    def cancel() -> None:
        if JOB in world.streams.running() and world.operation.status is OperationStatus.RUNNING:
            world.operation.cancel()

    world.on_pass = cancel  # type: ignore[method-assign]
    [error] = world.submit_beside()
    wait(world.owner.pass_over())

    assert isinstance(error, Canceled)
    assert world.job().status is JobStatus.CANCELED


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("execution.checkpointing.interval", "soon", "expected a duration such as 10 s or 500 ms"),
        ("streaming.on-source-rewrite", "guess", "expected fail or ignore"),
    ],
)
def test_a_property_that_cannot_be_used_is_refused_when_it_is_set(key: str, value: str, message: str) -> None:
    with pytest.raises(MtError, match=message):
        check_set(key, value)


@pytest.mark.parametrize(
    ("text", "interval_ms"), [("3000", 3000), ("3s", 3000), ("2 min", 120_000), ("", 1000)]
)
def test_an_interval_is_written_as_in_flink(text: str, interval_ms: int) -> None:
    check_set("execution.checkpointing.interval", text)

    assert StreamProperties({"execution.checkpointing.interval": text}, DEFAULTS).interval_ms == interval_ms
