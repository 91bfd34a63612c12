from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from mt_core.errors import SessionLimit, SessionNotFound
from mt_core.sessions.operations.operation import DONE, Operation, OperationKind, OperationStatus, Work
from mt_core.sessions.session import Session, SessionView
from mt_core.sessions.sessions import SessionManager
from mt_core.sql.parser import ReadStatement
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_statements import FakeStatementEngine

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def engine() -> FakeStatementEngine:
    return FakeStatementEngine()


@pytest.fixture
def sessions(engine: FakeStatementEngine, clock: FakeClock) -> SessionManager:
    return SessionManager(
        engine=engine,
        clock=clock,
        defaults={"zone": "UTC"},
        idle_timeout=timedelta(minutes=10),
        max_sessions=2,
    )


def begin(session: Session, handle: str = "o", *, sql: str = "SELECT 1") -> Operation:
    operation = Operation(handle, ReadStatement(sql), NOW)
    session.add(operation)
    operation.advance(OperationStatus.PENDING)
    operation.advance(OperationStatus.RUNNING)
    return operation


def test_properties_lie_over_the_defaults_and_only_they_go_to_the_engine(sessions: SessionManager) -> None:
    session = sessions.open("mine", {"zone": "Europe/Rome", "any.key": "1"})

    context = session.context({"any.key": "2"})

    assert session.properties == {"execution.runtime-mode": "batch", "zone": "Europe/Rome", "any.key": "1"}
    assert (session.name, context.session_id) == ("mine", session.handle)
    assert context.properties == {"zone": "Europe/Rome", "any.key": "2"}


def test_reset_of_one_key_or_of_all_goes_back_to_what_the_session_was_opened_with(
    sessions: SessionManager,
) -> None:
    opened = {"zone": "Europe/Rome", "a": "1"}
    session = sessions.open(properties=opened)
    session.overrides = {"zone": "Asia/Tokyo", "a": "2", "b": "2", "execution.runtime-mode": "streaming"}

    session.reset("zone")
    session.reset("b")
    session.reset("unknown")
    some = session.view().properties
    session.reset(None)

    assert some == {"execution.runtime-mode": "streaming", "zone": "Europe/Rome", "a": "2"}
    assert session.view().properties == {"execution.runtime-mode": "batch", **opened}
    assert session.context().properties == opened


def test_the_view_of_a_session_has_its_state_at_one_moment(
    sessions: SessionManager, clock: FakeClock
) -> None:
    session = sessions.open("mine", {"zone": "Europe/Rome"}, owner="anna")
    clock.advance(timedelta(minutes=1))
    sessions.get(session.handle).jars = ("/jars/a.jar",)

    assert session.view() == SessionView(
        handle=session.handle,
        name="mine",
        owner="anna",
        opened_at=NOW,
        last_access=NOW + timedelta(minutes=1),
        properties={"execution.runtime-mode": "batch", "zone": "Europe/Rome"},
        jars=("/jars/a.jar",),
        operations=(),
    )
    assert sessions.views() == [session.view()]


def test_one_session_too_many_is_refused_and_a_closed_one_makes_room(sessions: SessionManager) -> None:
    first = sessions.open()
    sessions.open()

    with pytest.raises(SessionLimit, match="2 sessions are open"):
        sessions.open()
    sessions.close(first.handle)
    sessions.open()

    assert len(sessions) == 2


def test_close_ends_the_operations_and_the_engine_session_and_is_named_the_second_time(
    sessions: SessionManager, engine: FakeStatementEngine
) -> None:
    session = sessions.open()
    operation = begin(session)

    sessions.close(session.handle)

    assert (operation.status, engine.closed_sessions) == (OperationStatus.CLOSED, [session.handle])
    with pytest.raises(SessionNotFound, match=f"Session '{session.handle}' does not exist"):
        sessions.close(session.handle)
    with pytest.raises(SessionNotFound, match=f"Session '{session.handle}' does not exist"):
        sessions.get(session.handle)
    with pytest.raises(SessionNotFound, match="was closed"):
        session.add(Operation("p", ReadStatement("SELECT 1"), NOW))
    assert session.operation("o") is None


def test_what_else_a_session_has_ends_with_it_by_a_close_or_by_time(
    engine: FakeStatementEngine, clock: FakeClock
) -> None:
    ended: list[str] = []
    sessions = SessionManager(engine=engine, clock=clock, on_close=ended.append)
    first, second = sessions.open(), sessions.open()

    sessions.close(first.handle)
    before = list(ended)
    clock.advance(timedelta(hours=1))
    sessions.expire_idle()

    assert (before, ended) == ([first.handle], [first.handle, second.handle])


def test_close_all_leaves_no_session(sessions: SessionManager, engine: FakeStatementEngine) -> None:
    handles = [sessions.open().handle, sessions.open().handle]

    sessions.close_all()

    assert (len(sessions), engine.closed_sessions) == (0, handles)


def test_a_session_expires_with_its_query_when_no_client_uses_it(
    sessions: SessionManager, clock: FakeClock
) -> None:
    used, left = sessions.open(), sessions.open()
    query, stopped = begin(left), list[str]()
    query.begin(
        Work(kind=OperationKind.SPARK, message="running", job_id="j", stop=lambda: stopped.append("j"))
    )
    clock.advance(timedelta(seconds=599))
    sessions.get(used.handle)
    before = sessions.expire_idle()
    clock.advance(timedelta(seconds=1))

    expired = sessions.expire_idle()

    assert (before, expired) == ([], [left.handle])
    assert (query.status, stopped) == (OperationStatus.CLOSED, ["j"])
    clock.advance(timedelta(seconds=598))
    assert sessions.expire_idle() == []
    clock.advance(timedelta(seconds=1))
    assert sessions.expire_idle() == [used.handle]


RUNNING_CHANGE = Work(kind=OperationKind.JOB, message="running", job_id="j")


@pytest.mark.parametrize("dml_sync", ["true", "false"])
def test_a_change_that_runs_goes_on_when_its_session_expires(
    sessions: SessionManager, clock: FakeClock, dml_sync: str
) -> None:
    session, stopped = sessions.open(properties={"table.dml-sync": dml_sync}), list[str]()
    change = begin(session, sql="INSERT INTO t SELECT 1")
    assert session.take_turn_now(change)
    change.begin(replace(RUNNING_CHANGE, stop=lambda: stopped.append("j")))
    clock.advance(timedelta(minutes=10))

    assert (sessions.expire_idle(), stopped) == ([session.handle], [])


@pytest.mark.parametrize(
    "work",
    [
        Work(kind=OperationKind.SESSION, message="waiting for its turn"),
        Work(kind=OperationKind.JOB, message="waiting for Spark"),
        Work(kind=OperationKind.SPARK, message="running", job_id="j"),
        Work(kind=OperationKind.TABLE, message="working on the table"),
    ],
)
def test_a_statement_that_is_no_query_is_not_lost_with_a_session_that_expires(
    sessions: SessionManager, clock: FakeClock, work: Work
) -> None:
    session, begun = sessions.open(), list[str]()
    query, change = begin(session, "q"), begin(session, "c", sql="INSERT INTO t SELECT 1")
    assert session.take_turn_now(query)
    session.take_turn(change, lambda: begun.append("c"))
    change.begin(work)
    clock.advance(timedelta(minutes=10))

    first = sessions.expire_idle()
    # Its thread, which the cancel has ended.
    session.end_turn(query)
    meanwhile = query.status, change.status, list(begun)
    change.finish(DONE)

    assert (first, meanwhile) == ([], (OperationStatus.CLOSED, OperationStatus.RUNNING, ["c"]))
    assert sessions.expire_idle() == [session.handle]


def test_a_refresh_that_a_statement_waits_for_does_not_keep_its_session(
    sessions: SessionManager, clock: FakeClock
) -> None:
    session = sessions.open()
    begin(session, sql="REFRESH MATERIALIZED TABLE t").begin(
        Work(kind=OperationKind.REFRESH, message="refreshing")
    )
    clock.advance(timedelta(minutes=10))

    assert sessions.expire_idle() == [session.handle]


def test_a_session_that_cannot_be_closed_keeps_no_other_from_expiring(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class FullDisk(FakeStatementEngine):
        def close_session(self, session_id: str) -> None:
            super().close_session(session_id)
            if len(self.closed_sessions) == 1:
                raise OSError("No space left on device")

    engine = FullDisk()
    sessions = SessionManager(engine=engine, clock=clock, idle_timeout=timedelta(minutes=10))
    handles = [sessions.open().handle, sessions.open().handle]
    clock.advance(timedelta(seconds=600))

    sessions.expire_idle()

    assert (len(sessions), engine.closed_sessions) == (0, handles)
    assert "No space left on device" in caplog.text


def test_sessions_never_expire_with_a_timeout_of_zero(engine: FakeStatementEngine, clock: FakeClock) -> None:
    sessions = SessionManager(engine=engine, clock=clock, idle_timeout=timedelta(0))
    sessions.open()
    clock.advance(timedelta(days=365))

    assert sessions.expire_idle() == []


def test_turns_are_given_one_at_a_time_in_the_order_of_arrival(sessions: SessionManager) -> None:
    session, submitted, done = sessions.open(), list[Callable[[], object]](), list[int]()
    operations = [Operation(f"o{number}", ReadStatement("SELECT 1"), NOW) for number in range(3)]
    for number, operation in enumerate(operations):
        session.take_turn(operation, partial(submitted.append, partial(done.append, number)))

    waiting = len(submitted)
    for operation in operations:
        submitted.pop()()
        session.end_turn(operation)

    assert (waiting, done, submitted) == (1, [0, 1, 2], [])


def test_a_turn_that_was_given_back_already_is_not_given_back_for_another(sessions: SessionManager) -> None:
    session, begun = sessions.open(), list[Operation]()
    first, second, third = (Operation(f"o{number}", ReadStatement("SELECT 1"), NOW) for number in range(3))
    taken = session.take_turn_now(first), session.take_turn_now(second)
    for operation in (second, third):
        session.take_turn(operation, partial(begun.append, operation))
    session.end_turn(first)

    session.end_turn(first)

    assert (taken, begun) == ((True, False), [second])
