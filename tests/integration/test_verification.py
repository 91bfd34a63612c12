"""VERIFY compares a table with its query in Spark: as multisets, but for the last digits
of sums of doubles.
"""

from __future__ import annotations

import pytest

from mt_core.errors import Incomparable
from mt_core.tables.table_commands import CommandOutcome
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = "CREATE TABLE o (id INT, cid INT, s STRING, x DOUBLE) USING iceberg"
ROWS = "INSERT INTO o VALUES (1, 1, 'a', 0.1), (2, 1, 'a', 0.2), (3, 2, NULL, 0.3), (3, 2, NULL, 0.3)"


def found(outcome: CommandOutcome) -> list[list[object]]:
    assert outcome.rows is not None
    return outcome.rows.page(0, 1000)


def verified(world: RefreshWorld, name: str, clause: str = "") -> list[list[object]]:
    return found(world.sql(f"VERIFY MATERIALIZED TABLE {name} {clause}"))


def test_rows_that_another_writer_added_or_deleted_are_reported_and_others_are_not(
    world: RefreshWorld,
) -> None:
    world.spark(ORDERS, ROWS)
    world.create("mt", "SELECT id, s, x FROM o")
    world.spark("INSERT INTO o VALUES (4, 4, 'later', 4)")
    equal = verified(world, "mt"), verified(world, "mt", "SAMPLE 50 PERCENT")

    world.spark(
        "DELETE FROM mt WHERE id = 1", "INSERT INTO mt VALUES (9, 'n', 9), (9, 'n', 9), (3, NULL, 0.3)"
    )

    assert equal == ([], [])
    assert verified(world, "mt") == [
        ["missing", 1, 1, "a", 0.1],
        ["unexpected", 1, 3, None, 0.3],
        ["unexpected", 2, 9, "n", 9.0],
    ]


@pytest.mark.slow
def test_doubles_are_equal_within_a_billionth_also_inside_of_values(world: RefreshWorld) -> None:
    world.spark(ORDERS, ROWS)
    query = "SELECT id, x, array(x, NULL) AS a, named_struct('v', x, 't', s) AS st FROM o"
    world.create("mt", query)
    world.spark("UPDATE mt SET x = x * (1 + 1e-12), a = array(x * (1 + 1e-12), NULL), st.v = st.v + 1e-13")
    close = verified(world, "mt")

    world.spark("UPDATE mt SET st.v = st.v + 1e-6 WHERE id = 2")

    assert close == []
    assert [row[:3] for row in verified(world, "mt")] == [["missing", 1, 2], ["unexpected", 1, 2]]


@pytest.mark.slow
def test_what_depends_on_order_or_ties_is_named_and_left_out_and_what_changes_by_itself_is_refused(
    world: RefreshWorld,
) -> None:
    world.spark(ORDERS, ROWS)
    world.create("mt", "SELECT cid, count(*) AS n, collect_list(s) AS l, first(id) AS f FROM o GROUP BY cid")
    world.create("random", "SELECT id, rand() AS r FROM o")
    world.spark("UPDATE mt SET n = 7, f = 9 WHERE cid = 2")

    outcome = world.sql("VERIFY MATERIALIZED TABLE mt")

    assert found(outcome) == [["missing", 1, 2, 2, None, None], ["unexpected", 1, 2, 7, None, None]]
    assert outcome.warnings == (
        "Column f was not compared: first() depends on the order of rows or on ties.",
        "Column l was not compared: collect_list() depends on the order of rows or on ties.",
    )
    assert "which may return other rows each time: rand()" in world.refused(
        "VERIFY MATERIALIZED TABLE random", Incomparable
    )


def test_a_source_whose_version_expired_is_named_with_the_way_out(world: RefreshWorld) -> None:
    world.spark(ORDERS, ROWS)
    world.create("mt", "SELECT id FROM o")
    world.spark("INSERT INTO o VALUES (4, 4, 'later', 4)")
    table = f"{world.namespace}.o"
    world.spark(
        f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP "
        "'2100-01-01', retain_last => 1)"
    )

    message = world.refused("VERIFY MATERIALIZED TABLE mt", Incomparable)

    assert f"the version of lake.{table} that its last refresh read has expired" in message
    assert "REFRESH computes all rows" in message
