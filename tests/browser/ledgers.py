"""A registry with tables in every state, each with a ledger of two days, as of one instant.

The facts are invented, but valid: the gateway that shows them judges them like any others.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from mt_core.model.freshness import Freshness
from mt_core.model.job import Job, JobStatus
from mt_core.model.partition import WHOLE, DoubtedPartitions, PartitionSpec, Scope
from mt_core.model.run import Batch, ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.model.table import (
    Column,
    MaterializedTable,
    RefreshMode,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.tables.registry import Transaction

NOW = datetime(2026, 3, 1, 12, 41, 10, tzinfo=UTC)
ZONE = "Europe/Rome"
DIVISION = (
    "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL "
    "instead.\nSQLSTATE: 22012\n== SQL (line 4, position 8) ==\n  sum(amount) / count(DISTINCT city)\n"
    "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
)
ODD_NAME = "<script>alert(1)</script>"
ODD_QUERY = "SELECT '<b>\"it''s\"</b>' AS `a\"b`, amount FROM lake.shop.orders WHERE note <> 'x''); --'"
HISTORY = timedelta(days=2)
NEVER = NOW + timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A table and the story of its ledger: it is refreshed `every` period until the instant `until`.

    Of `of` refreshes, one writes rows; the others are skipped, as are those from `skips_from` on. Those from
    `fails_from` on fail. Each takes about `seconds`.
    """

    name: str
    namespace: str
    freshness: Freshness
    reads: Sequence[str]
    query: str = (
        "SELECT city, sum(amount) AS amount, count(*) AS orders\nFROM lake.shop.orders\nGROUP BY city"
    )
    every: timedelta
    of: int = 1
    seconds: float = 3.0
    strategy: str = "merge"
    until: datetime = NOW
    fails_from: datetime = NEVER
    skips_from: datetime = NEVER
    mode: RefreshMode = RefreshMode.FULL
    changes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> TableIdentifier:
        return TableIdentifier("lake", (self.namespace,), self.name)

    @property
    def table_id(self) -> str:
        return str(uuid5(NAMESPACE_DNS, str(self.identifier)))


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TABLES = (
    Told(
        name="revenue",
        namespace="shop",
        freshness=Freshness(1, "HOUR"),
        reads=("lake.shop.orders", "lake.shop.rates"),
        every=HOUR,
        seconds=22,
        fails_from=NOW - 3 * HOUR,
        options={"partition.fields.ds.date-formatter": "yyyy-MM-dd", "webhook.secret": "geheim"},
    ),
    Told(
        name="daily_by_city",
        namespace="shop",
        freshness=Freshness(1, "HOUR"),
        reads=("lake.shop.revenue",),
        every=HOUR,
        seconds=9,
        skips_from=NOW - 4 * HOUR,
    ),
    Told(
        name="top_products",
        namespace="shop",
        freshness=Freshness(1, "DAY"),
        reads=("lake.shop.orders", "lake.shop.products"),
        every=DAY,
        seconds=240,
        strategy="recompute",
        fails_from=NOW,
    ),
    Told(
        name="clicks_5m",
        namespace="web",
        freshness=Freshness(5, "MINUTE"),
        reads=("lake.web.clicks",),
        every=timedelta(minutes=5),
        seconds=170,
        until=NOW - timedelta(minutes=1),
        strategy="append",
    ),
    Told(
        name="sessions",
        namespace="web",
        freshness=Freshness(10, "SECOND"),
        reads=("lake.web.clicks", "lake.web.pages"),
        every=HOUR,
        mode=RefreshMode.CONTINUOUS,
    ),
    Told(
        name="funnel",
        namespace="web",
        freshness=Freshness(1, "HOUR"),
        reads=("lake.web.sessions", "lake.shop.daily_by_city"),
        every=HOUR,
        of=3,
        until=NOW - 20 * HOUR,
        changes={
            "status": RefreshStatus.SUSPENDED,
            "status_by": "gateway",
            "status_at": NOW - 20 * HOUR,
            "status_reason": "5 refreshes failed in a row: " + DIVISION.splitlines()[0],
        },
    ),
    Told(
        name="ledger",
        namespace="fin",
        freshness=Freshness(1, "DAY"),
        reads=("lake.fin.entries",),
        every=DAY,
        seconds=61,
        changes={
            "doubted": DoubtedPartitions(
                scope=Scope.of([PartitionSpec.of({"ds": "2026-02-27"})]),
                reason="snapshot 4711 of lake.fin.entries has expired",
            )
        },
    ),
    Told(
        name="balances",
        namespace="fin",
        freshness=Freshness(1, "HOUR"),
        reads=("lake.fin.entries", "lake.fin.accounts"),
        every=HOUR,
        of=2,
        seconds=14,
    ),
    Told(
        name=ODD_NAME,
        namespace="fin",
        freshness=Freshness(1, "HOUR"),
        reads=("lake.shop.orders",),
        query=ODD_QUERY,
        every=HOUR,
        of=4,
        changes={"status_by": "<i>eve</i>"},
    ),
    Told(
        name="forecast",
        namespace="fin",
        freshness=Freshness(1, "DAY"),
        reads=("lake.fin.balances",),
        every=DAY,
        until=NOW - 30 * DAY,
        changes={"created_at": NOW - timedelta(minutes=4), "status_at": NOW - timedelta(minutes=4)},
    ),
)


def tell(tx: Transaction, tables: Iterable[Told] = TABLES) -> None:
    """Insert the tables, their ledgers and some jobs."""
    every: list[RefreshRun] = []
    for told in tables:
        tx.tables.insert(_table(told))
        every += _runs(told)
    for run in sorted(every, key=lambda each: each.requested_at):
        tx.runs.insert(run)
    for job in _jobs():
        tx.jobs.insert(job)


def _table(told: Told) -> MaterializedTable:
    continuous = told.mode is RefreshMode.CONTINUOUS
    definition = TableDefinition(
        columns=(
            Column(name="city", type="string", nullable=False, comment="as in the register"),
            Column(name="amount", type="decimal(18,2)"),
            Column(name="orders", type="bigint"),
        ),
        comment=f"What {told.name} is for.",
        original_query=told.query,
        expanded_query=told.query,
        freshness=told.freshness,
        refresh_mode=told.mode,
        logical_refresh_mode=told.mode.value,
        zone=ZONE,
        catalog="lake",
        namespace=(told.namespace,),
        options=dict(told.options),
        sources=tuple(told.reads),
    )
    table = MaterializedTable(
        table_id=told.table_id,
        identifier=told.identifier,
        definition=definition,
        created_at=NOW - 40 * DAY,
        status=RefreshStatus.ACTIVATED,
        status_at=NOW - 40 * DAY,
        status_by="anna",
        location=f"memory:/warehouse/{told.name}",
        covered_until=NOW,
        scheduler="" if continuous else "memory",
    )
    return replace(table, **told.changes)


def _runs(told: Told) -> Iterator[RefreshRun]:
    chance = random.Random(told.name)
    step = timedelta(hours=1) if told.mode is RefreshMode.CONTINUOUS else told.every
    # The grid begins at local midnight, an hour before that of UTC.
    first = (NOW - HISTORY - 3 * DAY).replace(hour=23, minute=0, second=0)
    # The ledger of frequent tables is cut to a day, as retention does it.
    first = max(first, NOW - 300 * step)
    points = [first + number * step for number in range(10_000) if first + number * step < told.until]
    if told.every >= HOUR:
        points = [point.replace(minute=0, second=0) for point in points]
    else:
        points = [point - timedelta(seconds=point.timestamp() % step.total_seconds()) for point in points]
    for number, point in enumerate(points):
        yield _run(told, number, point, chance, is_last=number == len(points) - 1)


def _run(told: Told, number: int, at: datetime, chance: random.Random, *, is_last: bool) -> RefreshRun:
    seconds = told.seconds * chance.uniform(0.7, 1.6)
    queue, decide = chance.uniform(0.02, 0.4), chance.uniform(0.1, 0.5)
    started = at + timedelta(seconds=1 + queue)
    finished = started + timedelta(seconds=seconds)
    writes = number % told.of == 0 and at < told.skips_from
    changed = f"{told.reads[0]} changed"
    # The versions that it read are the same until one of the sources has changed.
    behind = max(0, -((told.skips_from - at) // told.every)) if at >= told.skips_from else 0
    version = number - behind - number % told.of
    run = RefreshRun(
        run_id=str(uuid5(NAMESPACE_DNS, f"{told.identifier} {at}")),
        table_id=told.table_id,
        kind=RunKind.PERIODIC,
        scope=WHOLE,
        requested_at=at + timedelta(seconds=1),
        started_at=started,
        finished_at=started + timedelta(seconds=decide),
        request_key=f"scheduled__{at:%Y-%m-%dT%H:%M:%S}",
        schedule_time=at,
        points=(at,),
        claim=number + 1,
        job_id=uuid5(NAMESPACE_DNS, f"job {told.identifier} {at}").hex,
        vector=tuple(_version(source, version, at) for source in told.reads),
        pinned=True,
        status=RunStatus.SKIPPED,
        decision="skip",
        reason="sources unchanged",
        reason_code=ReasonCode.SOURCES_UNCHANGED,
        steps={"queue": queue, "decide": decide},
        snapshot_id=str(4_000_000_000_000_000_000 + version),
    )
    write = max(seconds - decide - 0.3, 0.1)
    wrote: dict[str, Any] = {
        "status": RunStatus.SUCCEEDED,
        "decision": "refresh",
        "reason": changed,
        "reason_code": ReasonCode.SOURCES_CHANGED,
        "finished_at": finished,
        "strategy": told.strategy,
        "rows": chance.randrange(400, 90_000),
        "rows_inserted": chance.randrange(1, 400),
        "rows_updated": chance.randrange(0, 2_000),
        "rows_deleted": chance.randrange(0, 20),
        "bytes_read": chance.randrange(10**6, 10**9),
        "steps": {"queue": queue, "decide": decide, "write": write, "publish": 0.3},
    }
    if told.mode is RefreshMode.CONTINUOUS:
        return replace(run, **{**wrote, **_stretch(number, at, is_last=is_last)})
    if at >= told.fails_from - told.every:
        failed: dict[str, Any] = {
            "status": RunStatus.FAILED,
            "error": DIVISION,
            "by_query": True,
            "strategy": None,
            "rows": None,
            "rows_inserted": None,
            "rows_updated": None,
            "rows_deleted": None,
            "snapshot_id": None,
            "steps": {"queue": queue, "decide": decide, "write": write},
        }
        return replace(run, **{**wrote, **failed})
    return replace(run, **wrote) if writes else run


def _stretch(number: int, at: datetime, *, is_last: bool) -> dict[str, Any]:
    """Return what is special of an hour of batches; the last one is running."""
    end = NOW if is_last else at + timedelta(hours=1)
    batches = tuple(
        Batch(
            number=330 + index,
            began_at=end - timedelta(seconds=6 * (50 - index)),
            seconds=0.4 + index % 7 / 10,
            lag=1.1 + index % 5 / 10,
            strategy="append",
            rows=100 + index * 3,
            snapshot_id=str(4_100_000_000_000_000_000 + number * 1000 + index),
            bytes_read=65_536,
        )
        for index in range(50)
    )
    return {
        "kind": RunKind.CONTINUOUS,
        "batches": 380,
        "recent": batches,
        "request_key": None,
        "points": (),
        "schedule_time": None,
        "status": RunStatus.RUNNING if is_last else RunStatus.SUCCEEDED,
        "finished_at": None if is_last else end,
        "owner": "gateway" if is_last else None,
        "lease_until": NOW + DAY if is_last else None,
    }


def _version(source: str, version: int, at: datetime) -> dict[str, Any]:
    # The numbers of the snapshots of materialized tables, which are refreshed as often.
    number = str(4_000_000_000_000_000_000 + version)
    facts = {
        "at": number,
        "committed": (at - timedelta(minutes=7)).isoformat(timespec="milliseconds"),
        "schema": 0,
        "snapshot": number,
        "uuid": str(uuid5(NAMESPACE_DNS, source)),
    }
    return {"kind": "table", "name": source, "version": facts}


def _jobs() -> Iterator[Job]:
    yield Job(
        job_id="6f1d0c52a0f34c0c9c1f4f5a9f6f0d11",
        kind="CTAS",
        name="create-table-as",
        status=JobStatus.FINISHED,
        started_at=NOW - 2 * HOUR,
        finished_at=NOW - 2 * HOUR + timedelta(seconds=48),
        target="lake.shop.orders_2025",
        user="anna",
        rows_written=1_204_331,
    )
    yield Job(
        job_id="7f1d0c52a0f34c0c9c1f4f5a9f6f0d12",
        kind="INSERT",
        name="insert-into-rates",
        status=JobStatus.FAILED,
        started_at=NOW - timedelta(minutes=9),
        finished_at=NOW - timedelta(minutes=8),
        target="lake.shop.rates",
        user="<i>eve</i>",
        error="[TABLE_OR_VIEW_NOT_FOUND] The table or view `lake`.`shop`.`rate` cannot be found.",
    )
