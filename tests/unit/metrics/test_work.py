from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mt_core.base.background import LoopState
from mt_core.errors import RegistryError
from mt_core.metrics import families
from mt_core.metrics.backlog import BacklogGauges
from mt_core.metrics.families import Family
from mt_core.metrics.instruments import Instruments
from mt_core.metrics.spark import SparkGauges
from mt_core.metrics.work import Work, WorkPorts
from mt_core.model.run import RunStatus
from mt_core.sessions.operations.operation import Operation, OperationStatus
from mt_core.sessions.ports import ResultSpace
from mt_core.sessions.sessions import SessionManager
from mt_core.sql.kinds import KINDS
from mt_core.sql.parser import ReadStatement
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.fake_statements import FakeStatementEngine
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_run
from tests.support.registry_steps import insert_runs
from tests.support.scrape import Samples, Scrape

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SPACE = ResultSpace(memory=1, disk=2, memory_limit=3, disk_limit=4)


class World:
    """Metrics over fakes, scraped without HTTP."""

    def __init__(self) -> None:
        self.instruments, self.clock = Instruments(), FakeClock(NOON)
        self.sessions = SessionManager(engine=FakeStatementEngine(), clock=self.clock)
        self.registry, self.engine = MemoryRegistry(self.clock), FakeEngine()
        ports = WorkPorts(sessions=self.sessions, result_space=lambda: SPACE, dropped=lambda: 5)
        self.work = Work(self.instruments, ports)
        self.backlog = BacklogGauges(self.instruments, self.registry.reading)
        self.spark = SparkGauges(self.instruments, self.engine.roles.state)

    def samples(self, family: Family, suffix: str = "") -> Samples:
        return Scrape.of_instruments(self.instruments.registry).of_family(family, suffix)


@pytest.fixture
def world() -> World:
    return World()


def test_requests_are_counted_by_route_and_class_of_status(world: World) -> None:
    for status in (200, 204, 404, 500):
        world.work.request("GET", "/v3/sessions/{session_handle}", status, 0.25)

    counts = world.samples(families.HTTP_REQUESTS)
    assert counts == {
        ("GET", "/v3/sessions/{session_handle}", "2xx"): 2,
        ("GET", "/v3/sessions/{session_handle}", "4xx"): 1,
        ("GET", "/v3/sessions/{session_handle}", "5xx"): 1,
    }
    assert world.samples(families.HTTP_DURATION, "_sum") == {("GET", "/v3/sessions/{session_handle}"): 1}


def test_statements_are_counted_by_type_and_outcome(world: World) -> None:
    for text, status in (("SELECT 1", OperationStatus.FINISHED), ("SHOW TABLES", OperationStatus.ERROR)):
        world.work.statement(ReadStatement(text), status, 2.0)

    assert world.samples(families.STATEMENTS) == {("SELECT", "FINISHED"): 1, ("SHOW_TABLES", "ERROR"): 1}
    assert world.samples(families.STATEMENT_DURATION, "_sum") == {("SELECT",): 2, ("SHOW_TABLES",): 2}


def test_whatever_clients_send_there_are_no_more_types_than_kinds_of_statements(world: World) -> None:
    for text in ("FROBNICATE x", "SHOW NONSENSE", "", "DESCRIBE NOTHING at all", "KILL 1", "CREATE GIZMO g"):
        world.work.statement(ReadStatement(text), OperationStatus.ERROR, 0.0)
    for kind in KINDS:
        for words in kind.phrases:
            world.work.statement(ReadStatement(words), OperationStatus.ERROR, 0.0)

    types = {type_ for type_, _ in world.samples(families.STATEMENTS)}
    assert types <= {kind.type for kind in KINDS} | {"(other)"}
    assert "(other)" in types


def test_transactions_are_measured_and_failures_counted(world: World) -> None:
    world.work.transaction(0.5, 0.25, False)
    world.work.transaction(30.0, 0.0, True)

    assert world.samples(families.REGISTRY_WAIT, "_sum") == {(): 30.5}
    assert world.samples(families.REGISTRY_TRANSACTION, "_count") == {(): 2}
    assert world.samples(families.REGISTRY_ERRORS) == {(): 1}


def test_sessions_and_operations_are_those_that_are_open(world: World) -> None:
    session, other = world.sessions.open(), world.sessions.open()
    done = Operation("1", ReadStatement("SET"), NOON)
    session.add(done)
    other.add(Operation("2", ReadStatement("SET"), NOON))
    done.cancel()

    assert world.samples(families.SESSIONS) == {(): 2}
    operations = world.samples(families.OPERATIONS)
    assert {status: count for status, count in operations.items() if count} == {
        ("INITIALIZED",): 1,
        ("CANCELED",): 1,
    }
    assert ("RUNNING",) in operations
    assert ("CLOSED",) not in operations


def test_the_space_of_results_is_shown_with_its_limits(world: World) -> None:
    assert world.samples(families.RESULT_BYTES) == {("memory",): 1, ("disk",): 2}
    assert world.samples(families.RESULT_BYTES_LIMIT) == {("memory",): 3, ("disk",): 4}
    assert world.samples(families.EVENTS_DROPPED) == {(): 5}


def test_a_loop_that_has_not_succeeded_counts_as_alive_since_the_start(world: World) -> None:
    minute = timedelta(minutes=1)
    fine = LoopState(name="fine", every=minute, succeeded_at=NOON + minute, failures=0, all_failures=3)
    new = LoopState(name="new", every=timedelta(0), succeeded_at=None, failures=2, all_failures=2)

    world.work.read_loops(lambda: [fine, new], NOON)

    assert world.samples(families.LOOP_SUCCESS) == {
        ("fine",): (NOON + minute).timestamp(),
        ("new",): NOON.timestamp(),
    }
    assert world.samples(families.LOOP_PERIOD) == {("fine",): 60, ("new",): 0}
    assert world.samples(families.LOOP_FAILURES) == {("fine",): 3, ("new",): 2}


def test_the_lease_has_no_expiry_before_it_is_acquired(world: World) -> None:
    expiry: list[datetime] = []
    world.work.read_lease(lambda: expiry[0] if expiry else None)
    before = world.samples(families.LEASE_EXPIRY)

    expiry.append(NOON)

    assert (before, world.samples(families.LEASE_EXPIRY)) == ({}, {(): NOON.timestamp()})


def test_the_backlog_is_shown_as_the_last_pass_has_read_it(world: World) -> None:
    unread = world.samples(families.REFRESHES_QUEUED), world.samples(families.REFRESHES_RUNNING)
    insert_runs(
        world.registry,
        a_run("a", requested_at=NOON),
        a_run("a", requested_at=NOON - timedelta(hours=1), waits_until=NOON + timedelta(hours=1)),
        a_run("b", requested_at=NOON, solo=True),
        a_run("c", status=RunStatus.RUNNING),
    )
    with world.registry.transaction() as tx:
        tx.notices.put("kind", {})

    world.backlog.read()
    insert_runs(world.registry, a_run("d"))

    assert unread == ({}, {})
    assert world.samples(families.REFRESHES_QUEUED) == {("false",): 2, ("true",): 1}
    assert (world.samples(families.REFRESHES_RUNNING), world.samples(families.REFRESHES_WAITING)) == (
        {(): 1},
        {(): 1},
    )
    assert world.samples(families.QUEUE_OLDEST) == {
        ("false",): NOON.timestamp(),
        ("true",): NOON.timestamp(),
    }
    assert world.samples(families.NOTICES_PENDING) == {(): 1}


def test_a_registry_that_fails_leaves_no_backlog_of_earlier(world: World) -> None:
    world.backlog.read()
    world.registry.close()

    with pytest.raises(RegistryError):
        world.backlog.read()

    assert world.samples(families.REFRESHES_QUEUED) == {}


def test_spark_is_up_with_its_workload_while_it_answers(world: World) -> None:
    world.spark.read()
    shown = [families.SPARK_UP, families.SPARK_TASKS, families.JVM_MEMORY]
    up = [world.samples(family) for family in shown]
    world.engine.away = True

    world.spark.read()

    assert up == [{(): 1}, {(): 2}, {("heap",): 4}]
    assert (world.samples(families.SPARK_UP), world.samples(families.SPARK_TASKS)) == ({(): 0}, {})
    assert world.samples(families.SPARK_STARTS) == {(): 1}
