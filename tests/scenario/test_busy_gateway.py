"""A gateway whose worker threads are all busy still serves other requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mt_core.model.run import RunStatus
from mt_core.sql.statements import RefreshTable
from mt_core.tables.table_commands import CommandOutcome
from tests.support.gateway.own_process import wait_until
from tests.support.gateway.statements import Gateway
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

REFRESH = "ALTER MATERIALIZED TABLE daily REFRESH"
# The statement threads of the gateway of these tests.
THREADS = 4
# Those of batches.
BATCH_THREADS = 2


@pytest.fixture
def waiting(roomy_gateway: Gateway) -> list[str]:
    """As many refreshes as worker threads, each in its own session, which all wait for one run."""
    run = roomy_gateway.runs.queue()
    roomy_gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)
    return [roomy_gateway.begin(roomy_gateway.open(), REFRESH) for _ in range(THREADS)]


def test_statements_that_wait_for_refreshes_do_not_keep_others_out(
    roomy_gateway: Gateway, waiting: list[str]
) -> None:
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


@pytest.fixture
def following(whole: WholeGateway) -> Iterator[WholeGateway]:
    """A gateway that watches the sources of CONTINUOUS tables."""
    batches = whole.process.work.continuous
    batches.start()
    yield whole
    batches.stop(10)


def test_batches_that_take_every_thread_of_theirs_keep_neither_statements_nor_refreshes_on_schedule_waiting(
    following: WholeGateway,
) -> None:
    names = [f"live_{number}" for number in range(BATCH_THREADS)]
    for name in names:
        following.sql(
            f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '1' SECOND AS SELECT * FROM orders"
        )
    following.sql(EVERY_10_S.format("scheduled", "orders"))
    held = [following.hold_write(name) for name in names]
    following.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 10}])

    def all_begin_within_a_second() -> bool:
        following.tick(seconds=1)
        return all(hold.entered.is_set() for hold in held)

    wait_until(all_begin_within_a_second, "no batch begins")

    following.tick(seconds=10)
    following.wait_until(lambda: "SUCCEEDED" in following.show("status", name="scheduled")[1:])
    found = following.amounts("scheduled"), following.amounts("live_0")
    for hold in held:
        hold.release()
    following.wait_until(lambda: following.amounts("live_0") == found[0])

    assert found[0] == [("2026-03-01", 10)] != found[1]
