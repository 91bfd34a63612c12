"""The hours of freshness: what is collected of each table, and when the registry gets it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.partition import WHOLE
from mt_core.model.run import Batch, RefreshRun, RunKind, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus, TableIdentifier
from mt_core.tables.events import BatchPublished, RunEnded
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.hours import ROWS, HoursRecord
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.overview.overview import Overview
from mt_core.tables.registry import Registry
from mt_core.testing.fake_clock import FakeClock
from tests.support.manager_world import START, WHOLE_TABLE, ManagerWorld
from tests.support.memory_registry import MemoryRegistry, MemoryTransaction
from tests.support.registry_facts import HOUR, NOON, a_run

MINUTE = timedelta(minutes=1)
FULL, CONTINUOUS = RefreshMode.FULL, RefreshMode.CONTINUOUS


def facts(
    *,
    mode: RefreshMode = FULL,
    stale: timedelta = MINUTE,
    late: timedelta | None = None,
    fault: Fault | None = None,
    status: RefreshStatus = RefreshStatus.ACTIVATED,
    table_id: str = "t-1",
) -> TableFacts:
    """Return the facts at NOON about a table that was *stale* then, and late for the time *late*."""
    return TableFacts(
        table_id=table_id,
        identifier=TableIdentifier("lake", ("sales",), table_id),
        mode=mode,
        status=status,
        freshness="1 hour",
        freshness_s=3600.0,
        cadence="INTERVAL '1' HOUR",
        zone="UTC",
        state=State.OK if late is None else State.LATE,
        shows=NOON - stale,
        shows_by=None,
        late_at=NOON + HOUR if late is None else NOON - late,
        silent_at=None,
        inherited=False,
        fault=fault,
        below=None,
        because="",
        doubt=None,
        last=None,
        refreshed_at=None,
        only=WHOLE,
        next_run=None,
        running=False,
        queued=0,
        reads=(),
        status_by="CREATE",
        status_reason=None,
        suspended_by=None,
        status_at=NOON,
        created_at=NOON,
    )


def an_hour(**changes: Any) -> FreshnessHour:
    """Return the record of the hour after noon in which nothing happened."""
    hour = FreshnessHour(
        table_id="t-1", hour=NOON, worst_s=0.0, late_s=0.0, fault=None, batches=0, rows=0, failed=0
    )
    return replace(hour, **changes)


class Commits(MemoryRegistry):
    """Counts the hours that each transaction adds, and fails as planned by `error`, once."""

    def __init__(self) -> None:
        super().__init__(FakeClock(NOON))
        self.sizes: list[int] = []
        self.error: Exception | None = None

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        with super().transaction() as tx:
            before = len(tx.state.hours)
            yield tx
            self.sizes.append(len(tx.state.hours) - before)
            error, self.error = self.error, None
            if error is not None:
                raise error


def stored(registry: Registry, table_id: str = "t-1") -> list[FreshnessHour]:
    with registry.reading() as tx:
        return list(tx.freshness.of(table_id, NOON - 10 * HOUR))


def a_batch(minute: int = 0, *, rows: int = 5, lag: float | None = 3.0) -> BatchPublished:
    batch = Batch(
        number=1,
        began_at=NOON + minute * MINUTE,
        seconds=1.0,
        lag=lag,
        strategy="append",
        rows=rows,
        snapshot_id="7",
    )
    return BatchPublished(run=a_run(kind=RunKind.CONTINUOUS), batch=batch)


def ended(status: RunStatus, **changes: Any) -> RunEnded:
    run: RefreshRun = a_run(status=status, finished_at=NOON + MINUTE, **changes)
    return RunEnded(run=run)


@pytest.fixture
def registry() -> Commits:
    return Commits()


@pytest.fixture
def record(registry: Commits) -> HoursRecord:
    return HoursRecord(registry, Overview(registry, FakeClock(NOON), {}))


def test_a_full_table_that_is_in_time_is_not_recorded(registry: Commits, record: HoursRecord) -> None:
    record.note([facts()], NOON)
    record.hear(ended(RunStatus.SUCCEEDED, rows=9))
    record.flush()

    assert stored(registry) == []


def test_a_late_table_is_recorded_with_the_time_in_which_it_was_late_since_the_last_look(
    registry: Commits, record: HoursRecord
) -> None:
    late = facts(stale=3 * HOUR, late=HOUR, fault=Fault.QUERY)

    record.note([late], NOON)
    record.note([late], NOON + MINUTE)
    record.flush()

    stale_s = (3 * HOUR + MINUTE).total_seconds()
    assert stored(registry) == [an_hour(worst_s=stale_s, late_s=60.0, fault="query")]


def test_a_table_that_became_late_after_the_last_look_counts_from_then(
    registry: Commits, record: HoursRecord
) -> None:
    record.note([facts()], NOON - MINUTE)
    record.note([facts(stale=2 * HOUR, late=timedelta(seconds=20), fault=Fault.SCHEDULE)], NOON)
    record.flush()

    before = an_hour(hour=NOON - HOUR, worst_s=0.0, late_s=20.0, fault="schedule")
    assert stored(registry)[0] == before


def test_lateness_is_divided_between_the_hours_in_which_it_fell(
    registry: Commits, record: HoursRecord
) -> None:
    late = facts(stale=3 * HOUR, late=HOUR, fault=Fault.QUEUE)

    record.note([late], NOON - 20 * MINUTE)
    record.note([late], NOON + 10 * MINUTE)
    record.flush()

    assert [(each.hour, each.late_s) for each in stored(registry)] == [
        (NOON - HOUR, 1200.0),
        (NOON, 600.0),
    ]


def test_a_continuous_table_is_recorded_with_its_worst_staleness_and_its_batches(
    registry: Commits, record: HoursRecord
) -> None:
    record.note([facts(mode=CONTINUOUS, stale=timedelta(seconds=2))], NOON)
    record.hear(a_batch(1, rows=5, lag=3.0))
    record.hear(a_batch(2, rows=7, lag=None))
    record.flush()

    assert stored(registry) == [an_hour(worst_s=3.0, batches=2, rows=12)]


def test_a_failed_refresh_is_recorded_with_the_rows_of_the_refreshes_before_it(
    registry: Commits, record: HoursRecord
) -> None:
    record.hear(ended(RunStatus.SUCCEEDED, rows=9))
    record.flush()
    record.hear(ended(RunStatus.FAILED))
    record.flush()

    assert stored(registry) == [an_hour(rows=9, failed=1)]


def test_the_end_of_a_continuous_run_does_not_count_the_rows_of_its_batches_again(
    registry: Commits, record: HoursRecord
) -> None:
    record.hear(a_batch(rows=5))
    record.hear(ended(RunStatus.SUCCEEDED, kind=RunKind.CONTINUOUS, rows=5))
    record.flush()

    assert stored(registry) == [an_hour(worst_s=3.0, batches=1, rows=5)]


def test_verifications_and_suspended_tables_are_not_recorded(registry: Commits, record: HoursRecord) -> None:
    record.hear(ended(RunStatus.FAILED, kind=RunKind.VERIFY))
    record.note([facts(mode=CONTINUOUS, status=RefreshStatus.SUSPENDED)], NOON)
    record.flush()

    assert stored(registry) == []


def test_each_flush_adds_only_what_is_new(registry: Commits, record: HoursRecord) -> None:
    stale = facts(mode=CONTINUOUS, stale=timedelta(seconds=9))

    record.note([stale], NOON)
    record.flush()
    record.note([stale], NOON)
    record.hear(a_batch())
    record.flush()
    record.note([stale], NOON)
    record.flush()

    assert stored(registry) == [an_hour(worst_s=9.0, batches=1, rows=5)]
    assert len(registry.sizes) == 2


def test_a_transaction_adds_a_limited_number_of_hours(registry: Commits, record: HoursRecord) -> None:

    record.note([facts(mode=CONTINUOUS, table_id=f"t-{number}") for number in range(2 * ROWS + 1)], NOON)
    record.flush()

    assert registry.sizes == [ROWS, ROWS, 1]


def test_what_could_not_be_added_is_added_by_the_next_flush(registry: Commits, record: HoursRecord) -> None:
    registry.error = OSError("disk full")
    record.hear(a_batch(rows=5))
    with pytest.raises(OSError, match="disk full"):
        record.flush()

    record.hear(a_batch(rows=6))
    record.flush()

    assert stored(registry) == [an_hour(worst_s=3.0, batches=2, rows=11)]


def test_the_unrecorded_part_of_a_past_hour_is_forgotten(registry: Commits, record: HoursRecord) -> None:
    record.note([facts(stale=2 * HOUR)], NOON - HOUR)
    record.flush()
    record.note([facts()], NOON + MINUTE)
    record.flush()
    record.hear(ended(RunStatus.FAILED))
    record.flush()

    assert [each.hour for each in stored(registry)] == [NOON]


def test_a_late_table_is_in_the_registry_after_five_looks() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    table_id = world.table("totals").table_id
    record = HoursRecord(world.registry, world.services.overview)

    world.clock.advance(3 * HOUR)
    for _ in range(5):
        world.services.overview.catch_up()
        record.look()
        world.clock.advance(MINUTE)

    (hour,) = stored(world.registry, table_id)
    assert hour.hour == START + 3 * HOUR
    assert hour.worst_s == (3 * HOUR + 4 * MINUTE).total_seconds()
    assert (hour.late_s, hour.fault) == (240.0, "schedule")
