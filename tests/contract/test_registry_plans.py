"""The statements of a refresh, and those that find what changed, read no whole table of the registry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.run import RunStatus
from mt_core.registry.database import connect
from mt_core.registry.store import SqlRegistry
from mt_core.registry.transaction import SqlTransaction
from tests.support.registry_facts import NOON, a_run, a_table

_TABLES = "runs|materialized_tables|deletions|freshness_hours|changed_runs|changed_materialized_tables"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        engine = connect(f"sqlite:///{tmp_path}/registry.db")
    else:
        engine = connect(str(request.getfixturevalue("postgres_database")))
    yield engine
    engine.dispose()


@contextmanager
def planned(engine: Engine, plans: dict[str, list[str]]) -> Iterator[None]:
    """Store the plan of each statement that is executed in the block."""

    def explain(connection: Connection, cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if re.match("SELECT|INSERT|UPDATE|DELETE", statement) is None or "advisory" in statement:
            return
        sqlite = connection.dialect.name == "sqlite"
        explaining = connection.connection.cursor()
        if not sqlite:
            # Small tables would be read from end to end also where there is an index.
            explaining.execute("SET LOCAL enable_seqscan = off")
        explaining.execute(f"EXPLAIN {'QUERY PLAN ' if sqlite else ''}{statement}", parameters)
        plans[statement] = [row[-1] for row in explaining.fetchall()]
        explaining.close()

    event.listen(engine, "before_cursor_execute", explain)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", explain)


def scans(plans: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return the steps of plans that read a whole table, with their statements."""
    whole = re.compile(rf"SCAN ({_TABLES})(?! USING)|.*Seq Scan on")
    return [(step, statement) for statement, plan in plans.items() for step in plan if whole.match(step)]


def refresh(tx: SqlTransaction) -> None:
    table, run = a_table(), a_run(request_key="k")
    tx.tables.insert(table)
    tx.runs.insert(replace(run, table_id=table.table_id))
    queued = tx.runs.next_claimable()
    assert queued is not None
    claim = tx.tables.next_claim(table.table_id)
    running = queued.advance(RunStatus.RUNNING, claim=claim, started_at=NOON)
    tx.runs.replace(running, expected=queued)
    tx.runs.replace(running.advance(RunStatus.SUCCEEDED, finished_at=NOON), expected=running)
    stored = tx.tables.get(table.table_id)
    assert stored is not None
    tx.tables.replace(stored)


def look_at_the_backlog(tx: SqlTransaction) -> None:
    tx.runs.backlog()


def look_for_changes(tx: SqlTransaction) -> None:
    tx.changes.tables_after(tx.changes.newest())
    tx.notices.oldest(10)
    tx.freshness.of("t", NOON)


def delete(tx: SqlTransaction) -> None:
    tx.runs.delete(["a", "b"])
    tx.tables.delete("t")
    tx.notices.delete([1, 2])


def keep_freshness(tx: SqlTransaction) -> None:
    hour = FreshnessHour(
        table_id="t", hour=NOON, worst_s=1.0, late_s=1.0, fault=None, batches=0, rows=0, failed=0
    )
    tx.freshness.add(hour)
    tx.freshness.forget(NOON - timedelta(days=14))


@pytest.mark.parametrize("work", [refresh, look_for_changes, look_at_the_backlog, delete, keep_freshness])
def test_no_statement_reads_a_whole_table(engine: Engine, work: Callable[[SqlTransaction], None]) -> None:
    plans: dict[str, list[str]] = {}

    with SqlRegistry(engine).transaction() as tx, planned(engine, plans):
        work(tx)

    assert plans
    assert scans(plans) == []


def test_the_number_of_the_last_change_is_read_from_the_ends_of_three_indexes(engine: Engine) -> None:
    plans: dict[str, list[str]] = {}

    with SqlRegistry(engine).transaction() as tx, planned(engine, plans):
        tx.changes.newest()

    [plan] = plans.values()
    used = [step for step in plan if re.search("by_change|deletions", step)]
    assert len(used) == 3
    assert all(re.search(r"SEARCH .* USING COVERING INDEX|Index Only Scan Backward", step) for step in used)


def test_a_statement_without_an_index_is_found(engine: Engine) -> None:
    plans: dict[str, list[str]] = {}

    with SqlRegistry(engine).transaction() as tx, planned(engine, plans):
        tx.statements.connection.exec_driver_sql("SELECT run_id FROM runs WHERE attempt = 7")

    assert len(scans(plans)) == 1
