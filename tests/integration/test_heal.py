from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mt_core.model.run import RunStatus
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = pytest.mark.spark

QUERY = "SELECT ds, k, 100 DIV k AS share FROM orders"
BY_DAY = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"


def midnight(day: int) -> datetime:
    return datetime(2026, 3, day, tzinfo=UTC)


def sell(world: RefreshWorld, *days: int, share: int = 1) -> None:
    """Let rows of *days* arrive; share 0 makes the query fail on them."""
    world.spark(f"INSERT INTO orders VALUES {', '.join(f'({day_text(day)}, {share})' for day in days)}")


def day_text(day: int) -> str:
    return f"'2026-03-{day:02}'"


def ledger(world: RefreshWorld) -> list[tuple[str, str]]:
    return [(str(run.status), str(run.scope)) for run in world.runs("mt")]


@pytest.fixture
def sales(world: RefreshWorld) -> RefreshWorld:
    """A daily table, created on 2026-03-01 at noon."""
    world.spark("CREATE TABLE orders (ds STRING, k INT) USING iceberg")
    sell(world, 1)
    world.create("mt", QUERY, clauses=BY_DAY)
    return world


def test_missed_failed_and_suspended_periods_are_all_made_up(sales: RefreshWorld) -> None:
    # Three daily ticks never come; the fourth takes their days with it, in one commit.
    sell(sales, 2, 3, 4)
    sales.clock.advance(midnight(5) - sales.clock.now())
    missed = sales.tick("mt", midnight(5))
    assert (missed.status, missed.rows, len(missed.points)) == (RunStatus.SUCCEEDED, 4, 4)
    assert sales.rows("mt") == sales.plain(QUERY)

    # The rows of one day make the query fail: its tick fails, and what is there stays.
    sell(sales, 5, share=0)
    failed = sales.tick("mt")
    assert failed.status is RunStatus.FAILED
    assert "DIVIDE_BY_ZERO" in (failed.error or "")
    assert len(sales.rows("mt")) == 4

    # The next tick takes both days and fails; each is tried again alone, so the good one arrives.
    sell(sales, 6)
    sales.tick("mt")
    assert ledger(sales)[-3:] == [
        ("FAILED", "ds=2026-03-05, ds=2026-03-06"),
        ("SUCCEEDED", "ds=2026-03-06"),
        ("FAILED", "ds=2026-03-05"),
    ]
    assert [row[0] for row in sales.rows("mt")] == [f"2026-03-{day:02}" for day in (1, 2, 3, 4, 6)]

    # The table is suspended for a week, in which rows go on arriving and the bad one is corrected.
    sales.sql("ALTER MATERIALIZED TABLE mt SUSPEND")
    sales.spark("UPDATE orders SET k = 4 WHERE k = 0")
    for day in range(7, 14):
        sell(sales, day)
        assert sales.tick("mt").decision == "suspended"
    assert len(sales.rows("mt")) == 5
    sales.sql("ALTER MATERIALIZED TABLE mt RESUME")
    sell(sales, 14)
    resumed = sales.tick("mt")

    assert resumed.status is RunStatus.SUCCEEDED, resumed.error
    # The day that failed alone stays out of their commit, and is tried again alone behind it.
    assert str(resumed.scope) == ", ".join(f"ds=2026-03-{day:02}" for day in range(7, 15))
    assert ledger(sales)[-1] == ("SUCCEEDED", "ds=2026-03-05")
    assert sales.rows("mt") == sales.plain(QUERY)
    assert {row[0] for row in sales.rows("mt")} == {f"2026-03-{day:02}" for day in range(1, 15)}
    assert sales.table("mt").covered_until == midnight(15)


def test_what_resume_forgets_is_not_made_up_but_can_be_refreshed_by_hand(sales: RefreshWorld) -> None:
    sales.sql("ALTER MATERIALIZED TABLE mt SUSPEND")
    sell(sales, 2, 3)
    sales.clock.advance(midnight(4) - sales.clock.now())
    sales.sql("ALTER MATERIALIZED TABLE mt RESUME WITH ('catch-up' = 'none')")
    sell(sales, 4)

    run = sales.tick("mt")

    assert (run.status, str(run.scope)) == (RunStatus.SUCCEEDED, "ds=2026-03-04")
    assert [row[0] for row in sales.rows("mt")] == ["2026-03-01", "2026-03-04"]
    sales.refresh("mt", ds="2026-03-02")
    sales.refresh("mt", ds="2026-03-03")
    assert sales.rows("mt") == sales.plain(QUERY)
