"""A registry as release 0.1.0 left it: thousands of tables, each with a ledger of a hundred refreshes.

A million runs are inserted by a hundred statements, one for each day, which joins all tables with the run of
their kind on that day. So the ledger is in the order of time, as a real one is, and its rows have the bodies
that the release stored.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from benchmarks.population import workflow_row
from mt_core.model.freshness import Freshness
from mt_core.model.partition import WHOLE
from mt_core.model.run import Batch, RefreshRun, RunKind, RunStatus
from mt_core.model.table import (
    Column,
    MaterializedTable,
    RefreshMode,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.registry.database import MIGRATIONS, parse
from mt_core.registry.rows import row_of

RELEASE = "0015"
SOURCE = "lake.default.orders"
# In the bodies of runs, the name of the source that a table reads.
PLACE = "@SOURCE@"
BATCHES = 50
WRITES_EVERY = 4
DAY = timedelta(days=1)
# The columns of runs that release 0.1.0 had in the body.
_MOVED = {"started_at", "finished_at"}


class Kind(Enum):
    """The kinds of tables, with the share of each in a hundred."""

    FAILING = 2
    SUSPENDED = 3
    CONTINUOUS = 5
    HEALTHY = 90


KINDS = [kind for kind in Kind for _ in range(kind.value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How many tables the registry has, and how many runs each of them."""

    tables: int = 10_000
    runs: int = 100

    @property
    def name(self) -> str:
        return f"{self.tables:,} tables, {self.tables * self.runs:,} runs"


def fill(url: str, filling: Filling) -> None:
    """Create a registry of release 0.1.0 at *url*, which is empty, and fill it."""
    engine = sa.create_engine(parse(url))
    try:
        with engine.begin() as connection:
            _create(connection)
            _fill(connection, filling)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE")
    finally:
        engine.dispose()


def identifier(number: int) -> TableIdentifier:
    """Return the name of the table with this number."""
    return TableIdentifier("lake", (f"ns{number % 10}",), f"t{number:05}")


def source_of(number: int) -> str:
    """Return what the table with this number reads: a third of the tables read another one."""
    return str(identifier(number // 3)) if number % 3 == 2 else SOURCE


def plain_tables(count: int) -> list[TableIdentifier]:
    """Return up to *count* healthy tables with a schedule that do not read other materialized tables."""
    plain = (number for number in range(10 * count) if _kind(number) is Kind.HEALTHY)
    return [identifier(number) for number in plain if source_of(number) == SOURCE][:count]


def _create(connection: sa.Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, RELEASE)


def _fill(connection: sa.Connection, filling: Filling) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    zone, midnight = _noon_zone(now)
    schema = sa.MetaData()
    schema.reflect(connection, only=["materialized_tables", "runs", "workflow_definitions"])
    stored, runs = schema.tables["materialized_tables"], schema.tables["runs"]
    listed = sa.Table(
        "filled_tables",
        schema,
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("table_id", sa.Text),
        sa.Column("kind", sa.Text),
        sa.Column("source", sa.Text),
        prefixes=["TEMPORARY"],
    )
    days = sa.Table(
        "filled_days",
        schema,
        sa.Column("day", sa.Integer, index=True),
        sa.Column("of_kind", sa.Text),
        *(
            sa.Column(each.name, each.type)
            for each in runs.columns
            if each.name not in {"seq", "run_id", "table_id"}
        ),
        prefixes=["TEMPORARY"],
    )
    for table in (listed, days):
        table.create(connection)
    tables = [
        _table(number, zone=zone, created=midnight - filling.runs * DAY) for number in range(filling.tables)
    ]
    connection.execute(stored.insert(), [_as_released(table, stored) for table in tables])
    scheduled = [table for table in tables if table.definition.refresh_mode is RefreshMode.FULL]
    connection.execute(schema.tables["workflow_definitions"].insert(), list(map(workflow_row, scheduled)))
    connection.execute(
        listed.insert(),
        [
            {
                "number": number,
                "table_id": table.table_id,
                "kind": _kind(number).name,
                "source": source_of(number),
            }
            for number, table in enumerate(tables)
        ],
    )
    for day in range(filling.runs):
        at = midnight - (filling.runs - 1 - day) * DAY
        connection.execute(
            days.insert(),
            [
                {"day": day, "of_kind": kind.name, **_as_released(_run(kind, day, at, filling.runs), runs)}
                for kind in Kind
            ],
        )
    _insert_runs(connection, runs, listed, days, filling.runs)
    for table in (listed, days):
        table.drop(connection)


def _insert_runs(
    connection: sa.Connection, runs: sa.Table, listed: sa.Table, days: sa.Table, count: int
) -> None:
    new_id = (
        sa.func.lower(sa.func.hex(sa.func.randomblob(16)))
        if connection.dialect.name == "sqlite"
        else sa.cast(sa.func.gen_random_uuid(), sa.Text)
    )
    names = [each.name for each in days.columns if each.name not in {"day", "of_kind", "body"}]
    values = [
        new_id,
        listed.c.table_id,
        *(days.c[name] for name in names),
        sa.func.replace(days.c.body, PLACE, listed.c.source),
    ]
    of_day = (
        sa.select(*values)
        .select_from(listed.join(days, listed.c.kind == days.c.of_kind))
        .where(days.c.day == sa.bindparam("of_day"))
        .order_by(listed.c.number)
    )
    insert = runs.insert().from_select(["run_id", "table_id", *names, "body"], of_day)
    for day in range(count):
        connection.execute(insert, {"of_day": day})


def _noon_zone(now: datetime) -> tuple[str, datetime]:
    """Return a zone in which it is about noon, so that no table is due soon, and its last midnight."""
    ahead = 12 - now.hour
    # The signs of these zones are inverted.
    zone = f"Etc/GMT{-ahead:+d}" if ahead else "UTC"
    return zone, now.replace(hour=0, minute=0, second=0) - timedelta(hours=ahead)


def _kind(number: int) -> Kind:
    return KINDS[number * 37 % len(KINDS)]


def _table(number: int, *, zone: str, created: datetime) -> MaterializedTable:
    kind, name = _kind(number), identifier(number)
    # The fake engine reads nothing else.
    query = f"SELECT * FROM {source_of(number)}"
    continuous = kind is Kind.CONTINUOUS
    definition = TableDefinition(
        columns=(Column(name="ds", type="string"), Column(name="amount", type="int")),
        original_query=query,
        expanded_query=query,
        freshness=Freshness(1, "DAY"),
        refresh_mode=RefreshMode.CONTINUOUS if continuous else RefreshMode.FULL,
        logical_refresh_mode="CONTINUOUS" if continuous else "FULL",
        zone=zone,
        catalog=name.catalog,
        namespace=name.namespace,
        query_types={"ds": "string", "amount": "int"},
        sources=(source_of(number),),
    )
    return MaterializedTable(
        table_id=str(uuid.uuid4()),
        identifier=name,
        definition=definition,
        created_at=created,
        status=RefreshStatus.SUSPENDED if kind is Kind.SUSPENDED else RefreshStatus.ACTIVATED,
        status_at=created,
        location=f"memory:/warehouse/{name.name}",
        covered_until=datetime.now(UTC),
        scheduler="memory",
    )


def _run(kind: Kind, day: int, at: datetime, runs: int) -> RefreshRun:
    """Return the run of a table of this kind that was due *at*, as the ledger of release 0.1.0 has it."""
    writes = day % WRITES_EVERY == 0
    snapshot = 4_000_000_000_000_000_000 + day - (0 if writes else day % WRITES_EVERY)
    run = RefreshRun(
        run_id="",
        table_id="",
        kind=RunKind.PERIODIC,
        scope=WHOLE,
        requested_at=at + timedelta(seconds=1),
        started_at=at + timedelta(seconds=2),
        finished_at=at + timedelta(seconds=5),
        request_key=f"scheduled__{at:%Y-%m-%dT%H:%M:%S}",
        schedule_time=at,
        points=(at,),
        claim=day + 1,
        job_id=uuid.uuid4().hex,
        owner=str(uuid.uuid4()),
        fingerprint=uuid.uuid4().hex,
        vector=(_version(day, at),),
        pinned=True,
        status=RunStatus.SKIPPED,
        decision="skip",
        reason="sources unchanged",
        snapshot_id=str(snapshot),
    )
    written: dict[str, Any] = {
        "status": RunStatus.SUCCEEDED,
        "decision": "refresh",
        "reason": f"{SOURCE} changed; only appends below one aggregate that combines",
        "strategy": "merge",
        "rows": 1_204,
        "rows_inserted": 4,
        "rows_updated": 1_200,
        "rows_deleted": 0,
        "bytes_read": 1_048_576,
    }
    if kind is Kind.CONTINUOUS:
        batches = tuple(_batch(number, at + number * timedelta(seconds=60)) for number in range(BATCHES))
        stretch: dict[str, Any] = {
            "kind": RunKind.CONTINUOUS,
            "batches": 3_600,
            "recent": batches,
            "request_key": None,
        }
        return replace(
            run, **written, **stretch, points=(), schedule_time=None, finished_at=at + timedelta(hours=1)
        )
    if kind is Kind.FAILING and day >= runs - 5:
        error = (
            "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. SQLSTATE: 22012"
        )
        failed: dict[str, Any] = {
            "status": RunStatus.FAILED,
            "error": error,
            "by_query": True,
            "decision": "refresh",
        }
        return replace(run, **failed, reason=f"{SOURCE} changed", snapshot_id=None)
    return replace(run, **written) if writes else run


def _version(day: int, at: datetime) -> dict[str, Any]:
    snapshot = str(4_000_000_000_000_000_000 + day - day % WRITES_EVERY)
    version = {
        "at": snapshot,
        "columns": "3a92e3b13a19134c",
        "committed": at.isoformat(timespec="milliseconds"),
        "schema": 0,
        "snapshot": snapshot,
        "uuid": str(uuid.uuid4()),
    }
    return {"kind": "table", "name": PLACE, "version": version}


def _batch(number: int, began_at: datetime) -> Batch:
    return Batch(
        number=3_550 + number,
        began_at=began_at,
        seconds=0.392,
        lag=0.409,
        strategy="merge",
        rows=120,
        snapshot_id=str(4_000_000_000_000_000_000 + number),
        bytes_read=65_536,
    )


def _as_released(fact: Any, table: sa.Table) -> dict[str, Any]:
    """Return the row of *fact* with the columns of *table*; instants are in the body."""
    row = row_of(fact)
    body = json.loads(row.pop("body"))
    body |= {
        name: value for name, value in row.items() if name not in table.columns and name in _MOVED and value
    }
    row = {name: value for name, value in row.items() if name in table.columns}
    return {**row, "body": json.dumps(body, sort_keys=True)}
