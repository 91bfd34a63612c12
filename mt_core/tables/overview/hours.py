"""The record of freshness: for each hour, how stale a table was, for how long it was late, and what it wrote.

A FULL table that is in time needs no record, because its ledger has its whole history (`history.py`). So an
hour is recorded only if the table is CONTINUOUS, was late, or a refresh of it failed. The overview says once
a minute how stale and how late each table is; events say in between what was published and what failed. Both
are collected in memory and added every five minutes to the hours that the registry has. A transaction adds
only `ROWS` hours, because no other transaction can begin meanwhile.

A gateway that is killed loses what it has not yet added: up to five minutes of this record, and never a run.
If a transaction was committed although it failed, its hours are added twice. While no gateway runs, nothing
is recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.run import REFRESHES, RunKind, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus
from mt_core.tables.events import BatchPublished, Fact, RunEnded
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.overview import Overview
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.registry import Registry, Transaction, in_transaction

HOUR = timedelta(hours=1)
LOOK_EVERY = timedelta(minutes=1)
LOOKS_PER_FLUSH = 5
ROWS = 25

Key = tuple[str, datetime]


class HoursRecord:
    """Records the hours of all tables. `hear` and `look` may be called from different threads."""

    def __init__(self, registry: Registry, overview: Overview) -> None:
        self._registry, self._overview = registry, overview
        self._lock = threading.Lock()
        # What has not been added to the registry, and the worst staleness there of the hours to be recorded.
        self._parts: dict[Key, FreshnessHour] = {}
        self._recorded: dict[Key, float] = {}
        self._looked_at: datetime | None = None
        self._looks = 0

    def hear(self, fact: Fact) -> None:
        """Count what was published or has failed; ignore all other facts."""
        match fact:
            case BatchPublished(run=run, batch=batch):
                ended = batch.began_at + timedelta(seconds=batch.seconds)
                self._add(run.table_id, ended, worst_s=batch.lag or 0.0, batches=1, rows=batch.rows)
            case RunEnded(run=run) if run.kind in REFRESHES and run.finished_at is not None:
                failed = run.status is RunStatus.FAILED
                # The rows of a continuous run are those of its batches.
                rows = 0 if run.kind is RunKind.CONTINUOUS else run.rows or 0
                self._add(run.table_id, run.finished_at, rows=rows, failed=int(failed), is_recorded=failed)
            case _:
                pass

    def look(self) -> None:
        """Note how stale and how late the tables are; add all to the registry every few calls."""
        now = self._overview.now()
        self.note(self._overview.facts(now), now)
        self._looks += 1
        if self._looks % LOOKS_PER_FLUSH == 0:
            self.flush()

    def note(self, tables: Iterable[TableFacts | UnreadableTable], now: datetime) -> None:
        """Note how stale and how late *tables* are *now*, and since the previous call."""
        since = now if self._looked_at is None else self._looked_at
        self._looked_at = now
        for table in tables:
            if isinstance(table, UnreadableTable) or table.status is not RefreshStatus.ACTIVATED:
                continue
            if table.shows is not None:
                is_continuous = table.mode is RefreshMode.CONTINUOUS
                stale_s = max(0.0, (now - table.shows).total_seconds())
                self._add(table.table_id, now, worst_s=stale_s, is_recorded=is_continuous)
            if (late_by := table.late_by(now)) is not None:
                fault = None if table.fault is None else table.fault.value
                for hour, seconds in _by_hour(max(since, now - late_by), now):
                    self._add(table.table_id, hour, late_s=seconds, fault=fault)

    def flush(self) -> None:
        """Add to the registry what has been collected; after an error, the next call adds it."""
        hours = self._take()
        while hours:
            rows = hours[:ROWS]
            try:
                in_transaction(self._registry, partial(_store, rows=rows))
            except BaseException:
                self._put_back(hours)
                raise
            hours = hours[ROWS:]
        self._forget_past_hours()

    def _add(self, table_id: str, at: datetime, *, is_recorded: bool = True, **amounts: Any) -> None:
        part = _part(table_id, _hour_of(at), **amounts)
        key = (table_id, part.hour)
        with self._lock:
            known = self._parts.get(key)
            self._parts[key] = part if known is None else _merged(known, part)
            if is_recorded:
                self._recorded.setdefault(key, -1.0)

    def _take(self) -> list[FreshnessHour]:
        """Return the parts of recorded hours that contain something new, and remove them."""
        with self._lock:
            taken = [key for key, part in self._parts.items() if self._has_news(key, part)]
            hours = [self._parts.pop(key) for key in taken]
            for each in hours:
                key = (each.table_id, each.hour)
                self._recorded[key] = max(self._recorded[key], each.worst_s)
        return hours

    def _has_news(self, key: Key, part: FreshnessHour) -> bool:
        known = self._recorded.get(key)
        if known is None:
            return False
        return part.worst_s > known or bool(part.late_s or part.batches or part.rows or part.failed)

    def _put_back(self, hours: Sequence[FreshnessHour]) -> None:
        with self._lock:
            for each in hours:
                key = (each.table_id, each.hour)
                newer = self._parts.get(key)
                self._parts[key] = each if newer is None else _merged(each, newer)
                self._recorded[key] = -1.0

    def _forget_past_hours(self) -> None:
        """Forget the hours that have ended, of which everything that is recorded has been added."""
        with self._lock:
            if self._looked_at is not None:
                current = _hour_of(self._looked_at)
                self._parts = {
                    key: part
                    for key, part in self._parts.items()
                    if key[1] >= current or self._has_news(key, part)
                }
                self._recorded = {
                    key: worst_s
                    for key, worst_s in self._recorded.items()
                    if key[1] >= current or key in self._parts
                }


def _store(tx: Transaction, rows: Sequence[FreshnessHour]) -> None:
    for each in rows:
        tx.freshness.add(each)


def _hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _by_hour(begin: datetime, end: datetime) -> Iterator[tuple[datetime, float]]:
    """Yield how many seconds of the time from *begin* to *end* lie in each hour."""
    while begin < end:
        until = min(_hour_of(begin) + HOUR, end)
        yield begin, (until - begin).total_seconds()
        begin = until


def _part(
    table_id: str,
    hour: datetime,
    *,
    worst_s: float = 0.0,
    late_s: float = 0.0,
    fault: str | None = None,
    **counts: int,
) -> FreshnessHour:
    return FreshnessHour(
        table_id=table_id,
        hour=hour,
        worst_s=worst_s,
        late_s=late_s,
        fault=fault,
        batches=counts.get("batches", 0),
        rows=counts.get("rows", 0),
        failed=counts.get("failed", 0),
    )


def _merged(earlier: FreshnessHour, later: FreshnessHour) -> FreshnessHour:
    """Return two parts of an hour as one."""
    return FreshnessHour(
        table_id=later.table_id,
        hour=later.hour,
        worst_s=max(earlier.worst_s, later.worst_s),
        late_s=earlier.late_s + later.late_s,
        fault=later.fault or earlier.fault,
        batches=earlier.batches + later.batches,
        rows=earlier.rows + later.rows,
        failed=earlier.failed + later.failed,
    )
