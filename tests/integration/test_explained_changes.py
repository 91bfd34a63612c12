"""What the ledger and EXPLAIN say of changes of sources, over real Spark and Iceberg."""

from __future__ import annotations

import pytest

from mt_core.model.run import RefreshRun
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APPLIED = "WITH ('refresh.strategy' = 'incremental')"


def counts_of(run: RefreshRun) -> tuple[object, ...]:
    assert run.error is None, run.error
    return run.strategy, run.rows_inserted, run.rows_updated, run.rows_deleted


def test_the_ledger_counts_what_each_strategy_did_to_the_rows_and_what_it_read(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, v INT) USING iceberg",
        "INSERT INTO o VALUES (1, 1), (1, 2), (2, 3)",
    )
    first = world.create("listed", "SELECT k, v + 1 AS w FROM o", clauses=APPLIED)
    world.create("counted", "SELECT k, count(*) AS n FROM o GROUP BY k", clauses=APPLIED)
    world.spark("INSERT INTO o VALUES (2, 4), (3, 5)")

    listed, counted = world.tick("listed"), world.tick("counted", world.clock.now())
    again = world.refresh("listed")

    assert counts_of(first) == ("recompute", 3, None, 0)
    assert counts_of(listed) == ("append", 2, 0, 0)
    assert counts_of(counted) == ("merge", 3, None, 2)
    assert counts_of(again) == ("recompute", 5, None, 5)
    assert first.bytes_read
    assert listed.bytes_read
    assert counted.bytes_read == listed.bytes_read
    assert again.bytes_read == first.bytes_read + listed.bytes_read
