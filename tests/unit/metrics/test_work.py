from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import generate_latest

from mt_core.base.background import LoopState
from mt_core.errors import RegistryError
from mt_core.metrics.backlog import BacklogGauges
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
from tests.support.scraped import Samples, samples_of

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

    def samples(self, name: str) -> Samples:
        return samples_of(generate_latest(self.instruments.registry).decode(), name)


@pytest.fixture
def world() -> World:
    return World()


def test_requests_are_counted_by_route_and_class_of_status(world: World) -> None:
    for status in (200, 204, 404, 500):
        world.work.request("GET", "/v3/sessions/{session_handle}", status, 0.25)

    counts = world.samples("http_requests_total")
    assert counts == {
        ("GET", "/v3/sessions/{session_handle}", "2xx"): 2,
        ("GET", "/v3/sessions/{session_handle}", "4xx"): 1,
        ("GET", "/v3/sessions/{session_handle}", "5xx"): 1,
    }
    assert world.samples("http_request_duration_seconds_sum") == {("GET", "/v3/sessions/{session_handle}"): 1}


def test_statements_are_counted_by_type_and_outcome(world: World) -> None:
    for text, status in (("SELECT 1", OperationStatus.FINISHED), ("SHOW TABLES", OperationStatus.ERROR)):
        world.work.statement(ReadStatement(text), status, 2.0)

    assert world.samples("statements_total") == {("SELECT", "FINISHED"): 1, ("SHOW_TABLES", "ERROR"): 1}
    assert world.samples("statement_duration_seconds_sum") == {("SELECT",): 2, ("SHOW_TABLES",): 2}


def test_whatever_clients_send_there_are_no_more_types_than_kinds_of_statements(world: World) -> None:
    for text in ("FROBNICATE x", "SHOW NONSENSE", "", "DESCRIBE NOTHING at all", "KILL 1", "CREATE GIZMO g"):
        world.work.statement(ReadStatement(text), OperationStatus.ERROR, 0.0)
    for kind in KINDS:
        for words in kind.phrases:
            world.work.statement(ReadStatement(words), OperationStatus.ERROR, 0.0)

    types = {type_ for type_, _ in world.samples("statements_total")}
    assert types <= {kind.type for kind in KINDS} | {"(other)"}
    assert "(other)" in types


def test_transactions_are_measured_and_failures_counted(world: World) -> None:
    world.work.transaction(0.5, 0.25, False)
    world.work.transaction(30.0, 0.0, True)

    assert world.samples("registry_wait_seconds_sum") == {(): 30.5}
    assert world.samples("registry_transaction_seconds_count") == {(): 2}
    assert world.samples("registry_errors_total") == {(): 1}


def test_sessions_and_operations_are_those_that_are_open(world: World) -> None:
    session, other = world.sessions.open(), world.sessions.open()
    done = Operation("1", ReadStatement("SET"), NOON)
    session.add(done)
    other.add(Operation("2", ReadStatement("SET"), NOON))
    done.cancel()

    assert world.samples("sessions") == {(): 2}
    operations = world.samples("operations")
    assert {status: count for status, count in operations.items() if count} == {
        ("INITIALIZED",): 1,
        ("CANCELED",): 1,
    }
    assert ("RUNNING",) in operations
    assert ("CLOSED",) not in operations


def test_the_space_of_results_is_shown_with_its_limits(world: World) -> None:
    assert world.samples("result_bytes") == {("memory",): 1, ("disk",): 2}
    assert world.samples("result_bytes_limit") == {("memory",): 3, ("disk",): 4}
    assert world.samples("events_dropped_total") == {(): 5}


def test_a_loop_that_has_not_succeeded_counts_as_alive_since_the_start(world: World) -> None:
    minute = timedelta(minutes=1)
    fine = LoopState(name="fine", every=minute, succeeded_at=NOON + minute, failures=0, all_failures=3)
    new = LoopState(name="new", every=timedelta(0), succeeded_at=None, failures=2, all_failures=2)

    world.work.read_loops(lambda: [fine, new], NOON)

    assert world.samples("background_loop_last_success_timestamp_seconds") == {
        ("fine",): (NOON + minute).timestamp(),
        ("new",): NOON.timestamp(),
    }
    assert world.samples("background_loop_period_seconds") == {("fine",): 60, ("new",): 0}
    assert world.samples("background_loop_failures_total") == {("fine",): 3, ("new",): 2}


def test_the_lease_has_no_expiry_before_it_is_acquired(world: World) -> None:
    expiry: list[datetime] = []
    world.work.read_lease(lambda: expiry[0] if expiry else None)
    before = world.samples("lease_expiry_timestamp_seconds")

    expiry.append(NOON)

    assert (before, world.samples("lease_expiry_timestamp_seconds")) == ({}, {(): NOON.timestamp()})


def test_the_backlog_is_shown_as_the_last_pass_has_read_it(world: World) -> None:
    unread = world.samples("refreshes_queued"), world.samples("refreshes_running")
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
    assert world.samples("refreshes_queued") == {("false",): 2, ("true",): 1}
    assert (world.samples("refreshes_running"), world.samples("refreshes_waiting")) == ({(): 1}, {(): 1})
    assert world.samples("refresh_queue_oldest_timestamp_seconds") == {
        ("false",): NOON.timestamp(),
        ("true",): NOON.timestamp(),
    }
    assert world.samples("notices_pending") == {(): 1}


def test_a_registry_that_fails_leaves_no_backlog_of_earlier(world: World) -> None:
    world.backlog.read()
    world.registry.close()

    with pytest.raises(RegistryError):
        world.backlog.read()

    assert world.samples("refreshes_queued") == {}


def test_spark_is_up_with_its_workload_while_it_answers(world: World) -> None:
    world.spark.read()
    up = {name: world.samples(name) for name in ("spark_up", "spark_active_tasks", "jvm_memory_bytes")}
    world.engine.away = True

    world.spark.read()

    assert up == {"spark_up": {(): 1}, "spark_active_tasks": {(): 2}, "jvm_memory_bytes": {("heap",): 4}}
    assert (world.samples("spark_up"), world.samples("spark_active_tasks")) == ({(): 0}, {})
    assert world.samples("spark_starts_total") == {(): 1}
