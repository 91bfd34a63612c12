"""The facts that programs read from a gateway: tables, refreshes and jobs as values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mt_core.client.facts import read_jobs, read_refreshes, read_tables
from mt_core.errors import QueryFailed
from mt_core.model.partition import PartitionSpec
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway


def at(second: int) -> datetime:
    return datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC)


def test_tables_and_their_refreshes_are_values(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    whole.pass_time(seconds=15)

    found = read_tables(whole.client, states=("OK", "SOON"), inside="lake.default")
    [table] = found.tables
    [skipped, first] = read_refreshes(whole.client, table.table_id, 10)

    assert (found.as_of, found.read, found.total) == (at(15), 1, 1)
    assert (table.name, table.table, table.mode) == ("lake.default.often", "often", "FULL")
    assert (table.freshness, table.fault, table.because, table.doubt) == ("10 seconds", None, "", None)
    assert (table.shows, table.late_at, table.late_by) == (at(15), at(30), None)
    assert table.last is not None
    assert (table.last.status, table.last.error) == ("SKIPPED", None)
    assert (skipped.status, skipped.schedule_time, skipped.snapshot) == ("SKIPPED", at(10), None)
    assert (skipped.partitions, skipped.reason) == ("whole table", "sources unchanged")
    assert (first.status, first.schedule_time, first.error) == ("SUCCEEDED", None, None)
    assert first.snapshot is not None


def test_only_tables_of_the_states_and_the_namespace_are_read(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.pass_time(seconds=10)

    failing = read_tables(whole.client, states=("FAILING", "LATE"))
    fine, elsewhere = read_tables(whole.client, states=("OK",)), read_tables(whole.client, inside="lake.x")

    [table] = failing.tables
    assert (table.state, table.last and table.last.status) == ("FAILING", "FAILED")
    assert (fine.tables, elsewhere.tables, fine.total) == ((), (), 1)


def test_tables_are_found_by_their_fault(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    for _ in range(6):
        whole.pass_time(seconds=10)

    [table] = read_tables(whole.client, faults=("writer", "queue")).tables
    others = read_tables(whole.client, faults=("query",))

    assert (table.state, table.fault, table.late_by) == ("OK", "writer", None)
    assert table.silent_by is not None
    assert (others.tables, others.total) == ((), 1)


def test_the_refreshes_of_a_table_are_read_over_pages(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    for _ in range(3):
        whole.pass_time(seconds=10)

    [table] = read_tables(whole.client).tables
    times = [each.schedule_time for each in read_refreshes(whole.client, table.table_id, 3)]

    assert times == [at(0) + timedelta(seconds=seconds) for seconds in (30, 20, 10)]


def test_a_job_that_failed_has_its_end_and_error(whole: WholeGateway) -> None:
    whole.statements.answers["INSERT INTO t SELECT 1"] = QueryFailed("No space.", sqlstate="53100")
    whole.refused("INSERT INTO t SELECT 1")

    [job], others = read_jobs(whole.client, ("FAILED",)), read_jobs(whole.client, ("RUNNING", "CANCELED"))

    assert (job.name, job.kind, job.status, job.target) == ("insert-t", "INSERT", "FAILED", "t")
    assert (job.error, job.finished_at, others) == ("No space.", at(0), [])
