"""Facts about the demo's tables and refreshes, parsed from the output of SHOW and EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mt_core.client.http import GatewayClient
from mt_core.demo.story import NAMESPACE

ENDED = frozenset({"SUCCEEDED", "SKIPPED", "FAILED", "CANCELED"})
_UNITS = {
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A materialized table; `stale_for` is None before its first refresh."""

    name: str
    refresh_mode: str
    freshness: timedelta
    stale_for: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A refresh run.

    `schedule_time` is in the table's time zone, or None for a manual refresh. `why` is the error or the
    reason.
    """

    table: str
    status: str
    partitions: str
    schedule_time: datetime | None
    snapshot: str | None
    why: str


def ask(client: GatewayClient, statement: str) -> list[Mapping[str, Any]]:
    """Run a statement and return its rows, keyed by column name."""
    rows: list[Mapping[str, Any]] = []
    for page in client.pages(client.execute(statement)):
        names = [column.name for column in page.columns]
        rows.extend(dict(zip(names, row, strict=True)) for row in page.rows)
    return rows


def read_tables(client: GatewayClient) -> list[TableFacts]:
    """Return the facts about all tables of the demo."""
    return [
        TableFacts(
            name=row["materialized table"],
            refresh_mode=row["refresh mode"],
            freshness=_span(row["freshness"].removeprefix("INTERVAL ").replace("'", "")),
            stale_for=_span(row["stale for"]) if row["stale for"] else None,
        )
        for row in ask(client, f"SHOW MATERIALIZED TABLES IN {NAMESPACE} EXTENDED")
    ]


def read_runs(client: GatewayClient, table: str, limit: int) -> list[RunFacts]:
    """Return the runs of *table*, a full name, newest first."""
    return [
        RunFacts(
            table=row["materialized table"],
            status=row["status"],
            partitions=row["partitions"],
            schedule_time=datetime.fromisoformat(row["schedule time"]) if row["schedule time"] else None,
            snapshot=row["snapshot"],
            why=row["error"] or row["reason"] or "",
        )
        for row in ask(client, f"SHOW REFRESHES FOR {table} EXTENDED LIMIT {limit}")
    ]


def read_decision(client: GatewayClient, target: str) -> str:
    """Return what a refresh of *target* would do now: `refresh` or `skip`.

    *target* is a table, optionally with PARTITION.
    """
    text: str = ask(client, f"EXPLAIN REFRESH {target}")[0]["result"]
    lines = (line.partition(":") for line in text.splitlines())
    decision = {name.strip(): value for name, _, value in lines}["decision"]
    return decision.partition(":")[0].strip()


def _span(text: str) -> timedelta:
    """Parse the duration at the start of a string such as `9 s (only ds=2013-01-15)`."""
    number, unit = text.split()[:2]
    return int(number) * _UNITS[unit]
