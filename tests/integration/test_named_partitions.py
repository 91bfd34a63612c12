"""REFRESH PARTITION with NULL and ranges, SHOW of a namespace, and readers at DROP,
over real Spark and Iceberg.
"""

from __future__ import annotations

import pytest

from mt_core.errors import TableBusy, TableNotFound
from mt_core.model.run import RunStatus
from tests.integration.refresh_world import RefreshWorld, in_order
from tests.integration.refresh_world import world as world

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(world: RefreshWorld) -> RefreshWorld:
    """A materialized table by day over orders of three days and some without a day,
    all of which changed since.
    """
    world.spark(
        "CREATE TABLE orders (ds STRING, v STRING) USING iceberg",
        "INSERT INTO orders VALUES ('d1', 'a'), ('d2', 'b'), ('d3', 'c'), (NULL, 'n')",
    )
    world.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds)")
    world.spark("UPDATE orders SET v = upper(v)", "INSERT INTO orders VALUES ('d9', 'NEW')")
    return world


@pytest.mark.parametrize(
    ("partition", "changed"),
    [
        ("ds IS NULL", {(None, "N")}),
        ("ds IN ('d1', NULL)", {("d1", "A"), (None, "N")}),
        ("ds >= 'd2' AND ds < 'd3'", {("d2", "B")}),
        ("ds > 'd2'", {("d3", "C"), ("d9", "NEW")}),
    ],
)
def test_named_partitions_are_refreshed_and_the_others_stay(
    orders: RefreshWorld, partition: str, changed: set[tuple[str | None, str]]
) -> None:
    run_id = orders.sql(f"ALTER MATERIALIZED TABLE mt REFRESH PARTITION ({partition})").wait_for
    orders.work()

    run = orders.run(run_id or "")
    assert run.status is RunStatus.SUCCEEDED, run.error
    days = {ds for ds, _ in changed}
    before = [("d1", "a"), ("d2", "b"), ("d3", "c"), (None, "n")]
    assert orders.rows("mt") == in_order([*(row for row in before if row[0] not in days), *changed])


def test_a_reader_through_a_view_keeps_a_table_that_is_dropped_with_restrict(orders: RefreshWorld) -> None:
    orders.spark("CREATE VIEW seen AS SELECT * FROM mt")
    orders.create("reader", "SELECT * FROM seen")

    text = orders.refused("DROP MATERIALIZED TABLE mt RESTRICT", TableBusy)
    outcome = orders.sql("DROP MATERIALIZED TABLE mt")

    assert ".mt is read by lake." in text
    assert ".reader" in text
    assert ".reader; their refreshes fail" in outcome.warnings[0]


def test_a_namespace_that_does_not_exist_is_told_from_one_without_tables(world: RefreshWorld) -> None:
    empty = world.sql(f"SHOW MATERIALIZED TABLES IN {world.namespace}").rows

    assert empty is not None
    assert empty.page(0, 10) == []
    world.refused("SHOW MATERIALIZED TABLES IN lake.nowhere_at_all", TableNotFound)
