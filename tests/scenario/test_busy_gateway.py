"""A gateway with as much to do as it has threads: others still get their turn."""

from __future__ import annotations

import pytest

from mt_core.model.run import RunStatus
from mt_core.sql.statements import RefreshTable
from mt_core.tables.table_commands import CommandOutcome
from tests.support.gateway.statements import Gateway

REFRESH = "ALTER MATERIALIZED TABLE daily REFRESH"
# The statement threads of the gateway of these tests.
THREADS = 4


@pytest.fixture
def waiting(roomy_gateway: Gateway) -> list[str]:
    """As many refreshes as there are threads, in sessions of their own, which all wait for one run."""
    run = roomy_gateway.runs.queue()
    roomy_gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)
    return [roomy_gateway.begin(roomy_gateway.open(), REFRESH) for _ in range(THREADS)]


def test_statements_that_wait_for_refreshes_do_not_keep_others_out(roomy_gateway: Gateway, waiting: list[str]) -> None:
    rows = roomy_gateway.rows(roomy_gateway.open(), "SELECT 1")

    assert rows == [[1]]
    assert [roomy_gateway.status(operation) for operation in waiting] == ["RUNNING"] * THREADS


def test_all_statements_that_wait_for_a_run_end_with_it(roomy_gateway: Gateway, waiting: list[str]) -> None:
    roomy_gateway.rows(roomy_gateway.open(), "SELECT 1")

    run_id = roomy_gateway.commands.outcomes[RefreshTable].wait_for or ""
    roomy_gateway.runs.move(run_id, RunStatus.RUNNING, RunStatus.SUCCEEDED, job_id="a" * 32)
    bodies = [roomy_gateway.result(operation).json() for operation in waiting]

    assert [body["results"]["data"][0]["fields"][0] for body in bodies] == ["a" * 32] * THREADS


def test_the_job_statements_need_no_thread_of_the_statements_at_work(roomy_gateway: Gateway) -> None:
    session = roomy_gateway.open()
    held = [roomy_gateway.engine.hold(f"SELECT 'held {number}'") for number in range(THREADS)]
    for number in range(THREADS):
        roomy_gateway.begin(roomy_gateway.open(), f"SELECT 'held {number}'")
    for each in held:
        each.wait_entered()

    jobs = roomy_gateway.rows(session, "SHOW JOBS")
    stopped = [roomy_gateway.rows(session, f"STOP JOB '{job[0]}'") for job in jobs]

    assert [job[2] for job in jobs] == ["RUNNING"] * THREADS
    assert stopped == [[["OK"]]] * THREADS
    assert set(roomy_gateway.engine.canceled) == {job[0] for job in jobs}
