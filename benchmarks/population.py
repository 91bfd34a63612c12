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
    """Return the freshness whose grid has its one point of this century at *instant*, a whole second.

    Tables of one freshness tick together, so this is how many of them are made to tick at chosen instants:
    such a grid is counted from 1970-01-05 in steps of some 56 years.
    """
    return Freshness(int(instant.timestamp()) - FIRST_INSTANT, "SECOND")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the ledger has of a periodic run: when it was accepted, and the grid point that it is for."""

    accepted_at: datetime
    point: datetime

    @property
    def lateness(self) -> float:
        """Seconds from the grid point to the acceptance."""
        return (self.accepted_at - self.point).total_seconds()


class Population:
    """The registry's file, written and read beside the gateway that uses it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "registry.db"
        self._ids: list[str] = []
        SqlRegistry.open(f"sqlite:///{self._file}").close()

    def create(self, instants: Sequence[datetime]) -> None:
        """Add a table for each of *instants*, at which it is due."""
        created = datetime.now(UTC) - LONG_AGO
        tables = [
            _table(number, due_at(instant), created=created, scheduler="memory")
            for number, instant in enumerate(instants)
        ]
        self._insert("materialized_tables", map(row_of, tables))
        self._insert("workflow_definitions", map(_workflow_row, tables))

    def create_quiet(self, count: int) -> None:
        """Add tables whose workflows are DAGs of an Airflow, and which are not due while anybody measures."""
        tables = [
            _table(number, QUIET, created=datetime.now(UTC), scheduler="airflow") for number in range(count)
        ]
        self._insert("materialized_tables", map(row_of, tables))
        self._insert("workflow_definitions", map(_workflow_row, tables))

    def reschedule(self, instant: datetime) -> None:
        """Let every table be due at *instant*."""
        freshness = due_at(instant)
        with sqlite3.connect(self._file) as database:
            database.execute(
                "UPDATE workflow_definitions SET body = json_set(body, '$.freshness', json(?))",
                (f'{{"amount": {freshness.amount}, "unit": "{freshness.unit}"}}',),
            )

    def accepted(self, since: datetime) -> int:
        """Return how many periodic runs were accepted since then."""
        with sqlite3.connect(self._file) as database:
            found = database.execute("SELECT count(*) FROM runs WHERE requested_at >= ?", (_text(since),))
            return int(found.fetchone()[0])

    def runs(self, since: datetime) -> list[Run]:
        """Return the periodic runs accepted since then, in that order."""
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


def _workflow_row(table: MaterializedTable) -> dict[str, Any]:
    return definition_row(
        WorkflowDefinition(
            workflow_id=table.table_id,
            identifier=str(table.identifier),
            description=f"Refresh materialized table {table.identifier} every {table.definition.freshness}",
            schedule=schedule_of(table),
            name=dag_id_of(DAG_ID_PREFIX, str(table.identifier)) if table.scheduler == "airflow" else "",
        )
    )
