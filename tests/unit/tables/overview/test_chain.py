"""How stale a table is counted from the sources of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mt_core.model.run import Batch, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode
from mt_core.tables.overview.chain import Chain, DataAsOf
from mt_core.tables.overview.reading import DEEP, with_refreshes
from mt_core.tables.overview.standing import Refreshes, Standing
from mt_core.testing.fake_clock import FakeClock
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import HOUR, NOON, a_run, a_table

MINUTE = timedelta(minutes=1)


class Ledger:
    """Tables `lake.sales.<name>` with their runs."""

    def __init__(self, *names: str) -> None:
        self.registry = MemoryRegistry(FakeClock(NOON))
        self.tables = {name: a_table(name) for name in names}
        with self.registry.transaction() as tx:
            for table in self.tables.values():
                tx.tables.insert(table)

    def refreshed(self, name: str, at: datetime, snapshot: str | None, **read: str) -> None:
        """Record a refresh that read these snapshots at an instant, and published a minute later;
        without one it was SKIPPED.
        """
        run = a_run(
            self.tables[name].table_id,
            status=RunStatus.SKIPPED if snapshot is None else RunStatus.SUCCEEDED,
            started_at=at,
            finished_at=at + MINUTE,
            snapshot_id=snapshot,
            vector=vector(**read),
        )
        self.insert(run)

    def insert(self, run: RefreshRun) -> None:
        with self.registry.transaction() as tx:
            tx.runs.insert(run)

    def included(
        self, name: str, at: datetime, fresh_at: Mapping[str, datetime] | None = None, **read: str
    ) -> DataAsOf:
        with self.registry.reading() as tx:
            standings = with_refreshes(tx, [Standing.of(table) for table in self.tables.values()], most=DEEP)
        named = {standing.identifier: standing for standing in standings}
        done = a_run(status=RunStatus.SUCCEEDED, started_at=at, finished_at=at, vector=vector(**read))
        reads = Refreshes.of([done], has_older=False).reads
        chain = Chain(standings=named, fresh_at=fresh_at or {})
        return chain.of(named[self.tables[name].identifier], reads, at)

    def below(self, name: str, until: datetime) -> DataAsOf:
        return DataAsOf(until=until, by=self.tables[name].identifier)


def vector(**read: str) -> tuple[dict[str, object], ...]:
    versions = {name: {"uuid": name, "snapshot": snapshot} for name, snapshot in read.items()}
    return tuple(
        {"name": f"lake.sales.{name}", "kind": "table", "version": version}
        for name, version in versions.items()
    )


def test_a_table_over_other_sources_includes_them_until_it_read_them() -> None:
    assert Ledger("high").included("high", NOON, orders="7") == DataAsOf(until=NOON)


def test_a_table_includes_what_its_source_had_read_when_it_published_the_version() -> None:
    ledger = Ledger("low", "high")
    ledger.refreshed("low", NOON - 2 * HOUR, "1", orders="7")
    ledger.refreshed("low", NOON + HOUR, "2", orders="8")

    assert ledger.included("high", NOON, low="1") == ledger.below("low", NOON - 2 * HOUR)


def test_a_version_published_between_the_begin_of_a_refresh_and_its_read_is_known_by_its_snapshot() -> None:
    ledger = Ledger("low", "high")
    ledger.refreshed("low", NOON - HOUR, "1", orders="7")
    ledger.refreshed("low", NOON - MINUTE / 2, "2", orders="8")

    assert ledger.included("high", NOON, low="2") == ledger.below("low", NOON - MINUTE / 2)
    assert ledger.included("high", NOON, low="1") == ledger.below("low", NOON - HOUR)


def test_a_refresh_of_the_source_that_was_skipped_counts_as_one_that_read_its_sources() -> None:
    ledger = Ledger("low", "high")
    ledger.refreshed("low", NOON - 3 * HOUR, "1", orders="7")
    ledger.refreshed("low", NOON - HOUR, None, orders="7")

    assert ledger.included("high", NOON, low="1") == ledger.below("low", NOON - HOUR)


def test_the_oldest_of_all_sources_counts_however_deep_it_is() -> None:
    ledger = Ledger("old", "new", "middle", "high")
    ledger.refreshed("old", NOON - 5 * HOUR, "1", orders="7")
    ledger.refreshed("new", NOON - HOUR, "2", orders="8")
    ledger.refreshed("middle", NOON - MINUTE * 30, "3", old="1", new="2", orders="9")

    assert ledger.included("high", NOON, middle="3", new="2") == ledger.below("old", NOON - 5 * HOUR)


def test_a_source_that_was_suspended_long_ago_keeps_its_reader_stale_although_that_is_refreshed() -> None:
    ledger = Ledger("low", "high")
    ledger.refreshed("low", NOON - 50 * HOUR, "1", orders="7")
    for hour in range(30):
        skipped = a_run(ledger.tables["high"].table_id, status=RunStatus.SKIPPED, vector=vector(low="1"))
        at = NOON - hour * HOUR
        ledger.insert(replace(skipped, started_at=at, finished_at=at))

    assert ledger.included("high", NOON, low="1") == ledger.below("low", NOON - 50 * HOUR)


def test_ticks_that_were_answered_without_reading_and_failures_do_not_count() -> None:
    ledger = Ledger("low", "high")
    ledger.refreshed("low", NOON - 2 * HOUR, "1", orders="7")
    answer = a_run(ledger.tables["low"].table_id, started_at=NOON - HOUR, finished_at=NOON - HOUR)
    ledger.insert(replace(answer, status=RunStatus.SKIPPED, decision="suspended"))
    ledger.insert(replace(answer, run_id="failed", status=RunStatus.FAILED))

    assert ledger.included("high", NOON, low="1") == ledger.below("low", NOON - 2 * HOUR)


def test_a_table_whose_source_has_no_refresh_left_in_the_ledger_counts_from_its_own() -> None:
    assert Ledger("low", "high").included("high", NOON, low="1") == DataAsOf(until=NOON)


def a_stretch(table: MaterializedTable, *batches: tuple[datetime, str, float | None]) -> RefreshRun:
    recent = tuple(
        Batch(
            number=number, began_at=at, seconds=1.0, lag=lag, strategy="append", rows=1, snapshot_id=snapshot
        )
        for number, (at, snapshot, lag) in enumerate(batches, 1)
    )
    return a_run(
        table.table_id,
        kind=RunKind.CONTINUOUS,
        status=RunStatus.RUNNING,
        started_at=NOON - 9 * HOUR,
        batches=len(recent),
        recent=recent,
        vector=vector(orders="9"),
    )


@pytest.mark.parametrize(
    ("snapshot", "fresh_at", "until"),
    [
        ("2", None, NOON - 2 * HOUR),
        ("2", NOON + HOUR, NOON),
        ("2", NOON - HOUR, NOON - HOUR),
        ("1", NOON + HOUR, NOON - 3 * HOUR + timedelta(seconds=1)),
    ],
    ids=[
        "without a look since",
        "unchanged until later",
        "unchanged until before",
        "until the next batch's first commit",
    ],
)
def test_a_continuous_source_is_included_until_its_own_sources_changed(
    snapshot: str, fresh_at: datetime | None, until: datetime
) -> None:
    ledger = Ledger("low", "high")
    low = ledger.tables["low"]
    ledger.tables["low"] = replace(
        low, definition=replace(low.definition, refresh_mode=RefreshMode.CONTINUOUS)
    )
    ledger.insert(a_stretch(low, (NOON - 8 * HOUR, "1", 5.0), (NOON - 2 * HOUR, "2", 3600.0)))

    included = ledger.included(
        "high",
        NOON - 2 * HOUR if snapshot == "1" else NOON,
        {low.table_id: fresh_at} if fresh_at else {},
        low=snapshot,
    )

    assert included.until == until


def test_a_ladder_of_diamonds_is_read_once_for_each_table() -> None:
    names = [f"t{number}{side}" for number in range(25) for side in "ab"]
    ledger = Ledger(*names)
    for number in range(25):
        for side in "ab":
            read = {"orders": "1"} if number == 0 else {f"t{number - 1}a": "1", f"t{number - 1}b": "1"}
            ledger.refreshed(f"t{number}{side}", NOON + number * 2 * MINUTE, "1", **read)

    assert ledger.included("t0a", NOON + 9 * HOUR, t24a="1", t24b="1").until == NOON


def test_show_and_describe_say_how_stale_the_sources_of_sources_are_and_which_table_is_the_oldest() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    world.sql(WHOLE_TABLE.replace("totals", "above").replace("FROM orders", "FROM totals"))
    world.work()
    world.sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    for _ in range(3):
        world.clock.advance(HOUR)
        world.tick(world.latest_point("above"), "above")
        world.work()

    shown = {row["materialized table"]: row for row in world.show("SHOW MATERIALIZED TABLES EXTENDED")}
    facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED above")}

    assert (shown["above"]["stale for"], shown["totals"]["stale for"]) == ("3 h", "3 h")
    assert (shown["above"]["last refresh"], shown["above"]["health"]) == ("2026-03-01 15:00:00", "LATE")
    assert facts["stale for"] == "3 h: lake.default.totals read its sources at 2026-03-01 12:00:00"
