"""A statement that exceeds its time limit ends with status TIMEOUT, wherever the limit was set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.model.run import RunStatus
from mt_core.sql.statements import RefreshTable
from mt_core.tables.table_commands import CommandOutcome
from tests.support.gateway.statements import Gateway, root_cause


def begin(gateway: Gateway, session: str, statement: str, timeout_ms: int) -> str:
    body = {"statement": statement, "executionTimeout": timeout_ms}
    answer = gateway.http.post(f"{session}/statements", json=body)
    return f"{session}/operations/{answer.json()['operationHandle']}"


def pass_time(gateway: Gateway, session: str, operation: str, **length: float) -> None:
    gateway.clock.advance(timedelta(**length))
    handle = operation.rpartition("/")[2]
    statement = gateway.sessions.get(session.rpartition("/")[2]).operation(handle)
    assert statement is not None
    assert statement.wait(60)


def test_a_late_query_is_stopped_and_its_result_says_why(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    operation = begin(gateway, session, "SELECT 1", 1500)
    hold.wait_entered()
    before = gateway.status(operation)

    pass_time(gateway, session, operation, seconds=1.5)

    answer = gateway.result(operation)
    assert (before, gateway.status(operation), len(gateway.engine.canceled)) == ("RUNNING", "TIMEOUT", 1)
    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "STATEMENT_TIMED_OUT")
    assert root_cause(answer) == (
        f"StatementTimedOut: Operation {operation.rpartition('/')[2]} took longer than 1.5 s, "
        "its time limit; raise executionTimeout or execution.timeout, whichever is shorter."
    )
    assert gateway.rows(session, "SELECT 1") == [[1]]


def test_the_shorter_of_the_limits_of_request_and_session_counts(gateway: Gateway) -> None:
    session, hold = gateway.open(**{"execution.timeout": "1 min"}), gateway.engine.hold("SELECT 1")
    operation = begin(gateway, session, "SELECT 1", 3_600_000)
    hold.wait_entered()

    pass_time(gateway, session, operation, minutes=1)

    assert gateway.status(operation) == "TIMEOUT"


def test_a_statement_that_waits_for_its_turn_too_long_never_runs(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    first = gateway.begin(session, "SELECT 1")
    hold.wait_entered()
    second = begin(gateway, session, "USE lake", 1000)

    pass_time(gateway, session, second, seconds=1)
    hold.release()
    gateway.result(first)

    assert (gateway.status(first), gateway.status(second)) == ("FINISHED", "TIMEOUT")
    assert gateway.rows(session, "SELECT 1") == [[1]]
    assert [sql for _, sql in gateway.engine.executed] == ["SELECT 1", "SELECT 1"]


def test_a_late_refresh_withdraws_its_request(gateway: Gateway) -> None:
    session, run = gateway.open(), gateway.runs.queue()
    gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)
    operation = begin(gateway, session, "ALTER MATERIALIZED TABLE daily REFRESH", 1000)
    gateway.rows(session, "SELECT 1")

    pass_time(gateway, session, operation, seconds=1)

    found = gateway.runs.run(run.run_id)
    assert (gateway.status(operation), gateway.runs.canceled) == ("TIMEOUT", [run.run_id])
    assert found is not None
    assert found.status is RunStatus.CANCELED


def test_what_ends_in_time_stays_finished(gateway: Gateway) -> None:
    session = gateway.open()
    operation = begin(gateway, session, "SELECT 1", 1000)
    gateway.result(operation)

    gateway.clock.advance(timedelta(hours=1))

    assert gateway.status(operation) == "FINISHED"


@pytest.mark.parametrize("statement", ["SET 'execution.timeout' = 'soon'", "SET execution.timeout = -1"])
def test_a_limit_that_is_no_duration_is_refused_when_it_is_set(gateway: Gateway, statement: str) -> None:
    answer = gateway.run(gateway.open(), statement)

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "REQUEST_INVALID")
    assert "expected a duration such as 30 min" in root_cause(answer)
