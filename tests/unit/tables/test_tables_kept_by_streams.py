"""A materialized table over rows without end is kept by a streaming job, from CREATE to DROP."""

from __future__ import annotations

from concurrent.futures import wait
from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import DefinitionInvalid, EngineError, Unsupported
from mt_core.jobs.store import JobStore
from mt_core.keepers.kinds import KeeperKind, Keepers
from mt_core.model.connector_table import ConnectorTable, GeneratedRows
from mt_core.model.job import Job, JobStatus
from mt_core.model.stream import StopRequest, StreamDefinition
from mt_core.model.table import RefreshStatus, SuspendedBy, stream_job
from mt_core.streaming.lifecycle import stop_requested
from mt_core.streaming.owner import StreamOwner
from mt_core.streaming.table_keeper import StreamKeeper
from mt_core.tables.manager import TableManager
from mt_core.tables.registry import in_transaction
from mt_core.tables.table_commands import RefreshRequest
from mt_core.tables.upkeep.reconcile import reconcile
from tests.support.fake_streams import FakeStreams
from tests.support.manager_world import ManagerWorld

KEPT = "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '10' SECOND AS SELECT * FROM orders"
ENDLESS = ConnectorTable(
    name="`lake`.`default`.`orders`",
    columns=("`id` INT",),
    clauses="",
    connector="datagen",
    query="SELECT 1 AS id",
    unbounded=GeneratedRows(items=("value",), rows_per_second=1),
)


class Unstoppable(FakeStreams):
    """Streams that no request ends."""

    def stop(self, job_id: str, definition: StreamDefinition) -> None:
        raise EngineError("the catalog refuses commits")


class StreamWorld(ManagerWorld):
    """A manager whose source has rows without end, and the owner of streaming jobs,
    which acts when a test lets it.
    """

    def __init__(self, streams: FakeStreams | None = None) -> None:
        self.streams = streams or FakeStreams()
        super().__init__()
        in_transaction(self.registry, lambda tx: tx.connector_tables.put(ENDLESS))

    def restart(self) -> None:
        super().restart()
        owner = self.services.settings.owner
        self.store = JobStore(self.registry, owner=owner, clock=self.clock)
        self.owner = StreamOwner(
            self.store, self.streams, clock=self.clock, ready=lambda: self.streams.available
        )
        keeper = StreamKeeper(
            store=self.store, engine=self.streams, clock=self.clock, checkpoints="memory:/c", wait_s=0.0
        )
        assert isinstance(self.services.keeper, Keepers)
        self.services = replace(self.services, keeper=self.services.keeper.with_streams(keeper))
        self.manager = TableManager(self.services)
        self.store.settle()

    def passes(self, number: int = 3) -> None:
        for _ in range(number):
            self.clock.advance(timedelta(seconds=1))
            wait(self.owner.pass_over())

    def job(self) -> Job:
        [job] = self.store.newest(1)
        return job

    def arrive(self, *rows: str) -> None:
        self.streams.source.extend(rows)
        self.passes()
        self.streams.run_batches()


@pytest.fixture
def world() -> StreamWorld:
    return StreamWorld()


def test_a_job_keeps_the_table_from_its_creation_and_no_refresh_is_queued(world: StreamWorld) -> None:
    outcome = world.sql(KEPT)
    world.arrive("a", "b")

    table, job = world.table("kept"), world.job()
    assert (outcome.wait_for, world.runs("kept"), table.rebuild_due) == (None, [], None)
    assert (table.status, table.definition.streams) == (RefreshStatus.ACTIVATED, ("lake.default.orders",))
    assert (job.job_id, job.kind, job.status) == (
        stream_job(table.table_id),
        "CONTINUOUS REFRESH",
        JobStatus.RUNNING,
    )
    assert job.definition is not None
    assert (job.definition.keeps, job.definition.interval_ms) == (table.table_id, 5000)
    assert job.job_id in (table.handler or "")
    assert world.streams.sink == ["a", "b"]
    assert world.registry.definitions.all() == []


def test_a_suspended_table_gets_no_row_and_a_resumed_one_those_that_came_meanwhile_once(
    world: StreamWorld,
) -> None:
    world.sql(KEPT)
    world.arrive("a")

    world.sql("ALTER MATERIALIZED TABLE kept SUSPEND")
    world.arrive("b")
    suspended, at_rest = world.job().status, list(world.streams.sink)
    world.sql("ALTER MATERIALIZED TABLE kept RESUME")
    world.arrive("c")

    assert (suspended, at_rest) == (JobStatus.SUSPENDED, ["a"])
    assert (world.table("kept").status, world.job().status) == (RefreshStatus.ACTIVATED, JobStatus.RUNNING)
    assert world.streams.sink == ["a", "b", "c"]


def test_a_job_that_failed_for_good_suspends_its_table_with_the_reason_and_resume_goes_on(
    world: StreamWorld,
) -> None:
    world.sql(KEPT)
    world.arrive("a")

    world.streams.fail(world.job().job_id, "the records are gone", final=True)
    world.passes()
    done = reconcile(world.services)
    suspended = world.table("kept")
    world.sql("ALTER MATERIALIZED TABLE kept RESUME")
    world.arrive("b")

    assert done == ["lake.default.kept is PAUSED in the stream"]
    assert (suspended.suspended_by, suspended.status_reason) == (SuspendedBy.JOB, "the records are gone")
    assert suspended.status_by == f"streaming job {world.job().job_id}"
    assert (world.table("kept").status, world.job().status) == (RefreshStatus.ACTIVATED, JobStatus.RUNNING)
    assert world.streams.sink == ["a", "b"]


def test_the_next_gateway_takes_the_job_over(world: StreamWorld) -> None:
    world.sql(KEPT)
    world.arrive("a")

    world.streams.lose(available=True)
    world.restart()
    world.arrive("b")

    assert (world.table("kept").status, world.job().status) == (RefreshStatus.ACTIVATED, JobStatus.RUNNING)
    assert world.streams.sink == ["a", "b"]
    assert reconcile(world.services) == []


def test_another_freshness_gives_the_stream_another_interval_as_another_attempt(world: StreamWorld) -> None:
    world.sql(KEPT)
    world.arrive("a")

    world.sql("ALTER MATERIALIZED TABLE kept SET FRESHNESS = INTERVAL '20' SECOND")
    world.arrive("b")

    job = world.job()
    assert job.definition is not None
    assert (job.definition.interval_ms, world.streams.attempts[job.job_id]) == (10_000, [1, 2])
    assert world.streams.sink == ["a", "b"]


def test_a_dropped_table_ends_its_job_and_leaves_neither_row_nor_checkpoint(world: StreamWorld) -> None:
    world.sql(KEPT)
    world.arrive("a")

    world.sql("DROP MATERIALIZED TABLE kept")
    world.passes()
    reconcile(world.services)

    assert (world.job().status, world.streams.checkpoints, world.streams.running()) == (
        JobStatus.CANCELED,
        {},
        set(),
    )
    assert world.state()["tables"] == world.state()["tombstones"] == []
    assert world.engine.storages == {}


def test_a_create_whose_process_ended_after_its_job_began_is_undone_with_the_job(world: StreamWorld) -> None:
    def killed(_job_id: str, _definition: object) -> None:
        raise SystemExit

    assert isinstance(world.services.keeper, Keepers)
    keeper = world.services.keeper.of_kind[KeeperKind.STREAM]
    assert isinstance(keeper, StreamKeeper)
    begin = keeper.store.begin

    def begun_and_killed(job: Job) -> None:
        begin(job)
        killed("", None)

    keeper.store.begin = begun_and_killed  # type: ignore[method-assign]

    with pytest.raises(SystemExit):
        world.sql(KEPT)
    world.restart()
    reconcile(world.services)
    world.passes()
    reconcile(world.services)

    assert world.job().status is JobStatus.CANCELED
    assert world.state()["tables"] == []
    assert world.engine.storages == {}
    world.sql(KEPT)
    assert world.table("kept").status is RefreshStatus.ACTIVATED


def test_a_query_that_a_stream_cannot_keep_leaves_nothing(world: StreamWorld) -> None:
    refusal = Unsupported("Its query combines rows of several batches.")
    world.streams.refusals[
        "INSERT INTO `lake`.`default`.`kept` BY NAME\nSELECT `ds`, `amount` FROM lake.default.orders"
    ] = refusal
    before = world.state()

    text = world.refused(lambda: world.sql(KEPT), DefinitionInvalid)

    assert text.startswith(
        "lake.default.kept cannot be maintained by a streaming job: "
        "Its query combines rows of several batches"
    )
    assert text.endswith("define lake.default.kept on the table that the job writes.")
    assert (world.state(), world.store.newest(1)) == (before, [])


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER MATERIALIZED TABLE kept REFRESH",
        "VERIFY MATERIALIZED TABLE kept",
        "EXPLAIN REFRESH kept",
        "ALTER MATERIALIZED TABLE kept AS SELECT ds FROM orders",
        "ALTER MATERIALIZED TABLE kept SET REFRESH_MODE = FULL",
        "ALTER MATERIALIZED TABLE kept SET FRESHNESS = INTERVAL '1' DAY",
        "ALTER MATERIALIZED TABLE kept RESUME WITH ('spark.sql.shuffle.partitions' = '2')",
    ],
)
def test_what_needs_a_refresh_is_refused_with_the_reason(world: StreamWorld, statement: str) -> None:
    world.sql(KEPT)
    before = replace(world.table("kept"), revision=0)

    text = world.refused(lambda: world.sql(statement), Unsupported)

    assert (
        f"streaming job {stream_job(before.table_id)} maintains it, and lake.default.orders "
        "does not retain its rows"
    ) in text
    assert replace(world.table("kept"), revision=0) == before


def test_the_refresh_endpoint_refuses_it(world: StreamWorld) -> None:
    world.sql(KEPT)
    request = RefreshRequest(identifier_text="lake.default.kept", is_periodic=False)

    text = world.refused(lambda: world.manager.requests.request_refresh(request), Unsupported)

    assert text.startswith("A refresh of lake.default.kept: streaming job")


def test_create_or_alter_with_the_same_query_changes_the_freshness_alone(world: StreamWorld) -> None:
    again = KEPT.replace("CREATE", "CREATE OR ALTER")
    world.sql(KEPT)

    world.sql(again.replace("'10'", "'30'"))
    refusals = (Unsupported, DefinitionInvalid)
    text = world.refused(lambda: world.sql(again.replace("*", "ds")), refusals)  # type: ignore[arg-type]

    assert world.table("kept").definition.freshness.seconds == 30
    assert "kept" in text


def test_explain_create_and_describe_say_how_it_is_kept(world: StreamWorld) -> None:
    explained = str(world.show(f"EXPLAIN {KEPT}")[0]["result"])

    world.sql(KEPT)
    world.arrive("a")
    facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED kept")}
    [shown] = world.show("SHOW MATERIALIZED TABLES")

    assert (
        "  schedule: within 10 seconds of a new row\n  kept by:  a streaming job, which adds each row once"
        in explained
    )
    assert facts["workflow"] == "none: a streaming job adds the rows of lake.default.orders (ACTIVE)"
    assert facts["job"] == world.job().job_id
    assert (shown["refresh mode"], shown["status"], shown["health"]) == ("CONTINUOUS", "ACTIVATED", "OK")


def test_a_job_that_cannot_be_stopped_keeps_its_table_active_and_says_why() -> None:
    world = StreamWorld(Unstoppable())
    world.sql(KEPT)
    world.arrive("a")

    world.store.update(world.job().job_id, lambda job: stop_requested(job, StopRequest()))
    world.passes(1)

    job = world.job()
    assert (job.status, reconcile(world.services)) == (JobStatus.RESTARTING, [])
    assert job.stream is not None
    assert job.stream.refused == "the catalog refuses commits"
    assert world.table("kept").status is RefreshStatus.ACTIVATED
