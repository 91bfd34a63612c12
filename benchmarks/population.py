"""Thousands of materialized tables in a registry, and when each of them is due."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mt_core.keepers.workflow import schedule_of
from mt_core.model.freshness import FIRST_INSTANT, Freshness
from mt_core.model.table import (
    Column,
    MaterializedTable,
    RefreshMode,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.registry.rows import definition_row, row_of
from mt_core.registry.store import SqlRegistry
from mt_core.workflow.definitions import WorkflowDefinition
from scheduler_plugins.airflow.names import dag_id_of

QUERY = "SELECT * FROM lake.default.orders"
LONG_AGO = timedelta(days=2)
QUIET = Freshness(90, "DAY")
DAG_ID_PREFIX = "mt__"


def due_at(instant: datetime) -> Freshness:
    """Return a freshness whose grid has its only point in this century at *instant*, a whole second.

    Such a grid counts from 1970-01-05 in steps of about 56 years. Tables with the same freshness tick
    together, so this makes many tables tick at a chosen instant.
    """
    return Freshness(int(instant.timestamp()) - FIRST_INSTANT, "SECOND")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A periodic run in the ledger: when it was accepted, and its grid point."""

    accepted_at: datetime
    point: datetime

    @property
    def lateness(self) -> float:
        """The number of seconds from the grid point to the acceptance."""
        return (self.accepted_at - self.point).total_seconds()


class Population:
    """The file of the registry, which is written and read while a gateway uses it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "registry.db"
        self._ids: list[str] = []
        SqlRegistry.open(f"sqlite:///{self._file}").close()

    def create(self, instants: Sequence[datetime]) -> None:
        """Add a table for each of *instants*, at which the table is due."""
        created = datetime.now(UTC) - LONG_AGO
        tables = [
            _table(number, due_at(instant), created=created, scheduler="memory")
            for number, instant in enumerate(instants)
        ]
        self._insert("materialized_tables", map(row_of, tables))
        self._insert("workflow_definitions", map(workflow_row, tables))

    def create_quiet(self, count: int) -> None:
        """Add tables whose workflows are DAGs of an Airflow. They are not due during the measurement."""
        tables = [
            _table(number, QUIET, created=datetime.now(UTC), scheduler="airflow") for number in range(count)
        ]
        self._insert("materialized_tables", map(row_of, tables))
        self._insert("workflow_definitions", map(workflow_row, tables))

    def reschedule(self, instant: datetime) -> None:
        """Make every table due at *instant*."""
        freshness = due_at(instant)
        with sqlite3.connect(self._file) as database:
            database.execute(
                "UPDATE workflow_definitions SET body = json_set(body, '$.freshness', json(?))",
                (f'{{"amount": {freshness.amount}, "unit": "{freshness.unit}"}}',),
            )

    def accepted(self, since: datetime) -> int:
        """Return the number of periodic runs accepted since *since*."""
        with sqlite3.connect(self._file) as database:
            found = database.execute("SELECT count(*) FROM runs WHERE requested_at >= ?", (_text(since),))
            return int(found.fetchone()[0])

    def runs(self, since: datetime) -> list[Run]:
        """Return the periodic runs accepted since *since*, in order of acceptance."""
        statement = (
            "SELECT requested_at, schedule_time FROM runs "
            "WHERE kind = 'PERIODIC' AND requested_at >= ? ORDER BY seq"
        )
        with sqlite3.connect(self._file) as database:
            found = database.execute(statement, (_text(since),)).fetchall()
        return [
            Run(accepted_at=datetime.fromisoformat(accepted), point=datetime.fromisoformat(point))
            for accepted, point in found
        ]

    def _insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        listed = [dict(row) for row in rows]
        names = list(listed[0])
        places = ", ".join(f":{name}" for name in names)
        with sqlite3.connect(self._file) as database:
            database.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", listed)


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _table(number: int, freshness: Freshness, *, created: datetime, scheduler: str) -> MaterializedTable:
    definition = TableDefinition(
        columns=(Column(name="ds", type="string"), Column(name="amount", type="int")),
        original_query=QUERY,
        expanded_query=QUERY,
        freshness=freshness,
        refresh_mode=RefreshMode.FULL,
        logical_refresh_mode="FULL",
        zone="UTC",
        catalog="lake",
        namespace=("default",),
    )
    return MaterializedTable(
        table_id=str(uuid.uuid4()),
        identifier=TableIdentifier("lake", ("default",), f"t{number:05}"),
        definition=definition,
        created_at=created,
        status=RefreshStatus.ACTIVATED,
        status_at=created,
        location=f"memory:/warehouse/t{number:05}",
        covered_until=created,
        scheduler=scheduler,
    )


def workflow_row(table: MaterializedTable) -> dict[str, Any]:
    """Return the row of the definition of the workflow of *table*."""
    return definition_row(
        WorkflowDefinition(
            workflow_id=table.table_id,
            identifier=str(table.identifier),
            description=f"Refresh materialized table {table.identifier} every {table.definition.freshness}",
            schedule=schedule_of(table),
            name=dag_id_of(DAG_ID_PREFIX, str(table.identifier)) if table.scheduler == "airflow" else "",
            paused=table.status is RefreshStatus.SUSPENDED,
        )
    )
