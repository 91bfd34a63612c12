"""Every run with a reason has the code of that reason."""

from __future__ import annotations

from mt_core.model.run import ReasonCode, RefreshRun, RunKind
from mt_core.tables.registry import in_transaction
from tests.support.manager_world import START, WHOLE_TABLE, ManagerWorld
from tests.unit.tables.continuous_table import LiveTable

PERIOD = "2026-03-01 12:00:00"


def codes(world: ManagerWorld) -> list[tuple[str, str, str | None]]:
    """Return kind, status and code of all runs, oldest first."""
    runs = in_transaction(world.registry, lambda tx: tx.runs.newest(kinds=frozenset(RunKind)))
    assert all((run.reason is None) == (run.reason_code is None) for run in runs)
    return [(run.kind.value, run.status.value, _name(run)) for run in reversed(runs)]


def _name(run: RefreshRun) -> str | None:
    return None if run.reason_code is None else ReasonCode(run.reason_code).name


def test_the_runs_of_a_table_have_the_codes_of_their_reasons() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()
    world.tick(START, "totals")
    world.work()
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    world.tick(START.replace(hour=13), "totals")
    world.work()
    world.sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    world.tick(START.replace(hour=14), "totals")

    assert codes(world) == [
        ("INITIAL", "SUCCEEDED", "NEVER_REFRESHED"),
        ("MANUAL", "SUCCEEDED", "REQUESTED"),
        ("PERIODIC", "SKIPPED", "SOURCES_UNCHANGED"),
        ("PERIODIC", "SUCCEEDED", "SOURCES_CHANGED"),
        ("PERIODIC", "SKIPPED", "TABLE_SUSPENDED"),
    ]


def test_a_queued_run_that_is_cancelled_or_whose_table_is_dropped_says_so() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    first = world.tick(START, "totals")
    world.ledger.cancel(first.run_id)
    world.sql("DROP MATERIALIZED TABLE totals")

    assert codes(world) == [
        ("INITIAL", "CANCELED", "TABLE_DROPPED"),
        ("PERIODIC", "CANCELED", "CANCELLED"),
    ]


def test_a_continuous_run_has_the_code_of_its_last_batch() -> None:
    world = LiveTable()
    world.look()
    world.append(10)
    world.look(after=10)
    world.lookout.end("the gateway stops")

    assert codes(world)[-1] == ("CONTINUOUS", "SUCCEEDED", "SOURCES_CHANGED")
