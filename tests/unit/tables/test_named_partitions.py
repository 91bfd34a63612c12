"""REFRESH PARTITION: values checked against their date-formatter, lists, ranges and NULL."""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, RequestInvalid, SqlSyntaxError
from mt_core.model.partition import PartitionSpec, Scope
from tests.support.manager_world import DAILY, ManagerWorld

ROWS = [{"ds": ds, "amount": 1} for ds in ("2026-03-01", "2026-03-02", "2026-03-05", None)]


@pytest.fixture
def world() -> ManagerWorld:
    made = ManagerWorld()
    made.engine.commit("lake.default.orders", ROWS)
    made.sql(DAILY)
    made.work()
    return made


def ds(*values: str | None) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": value}) for value in values)


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("ds = '2026-03-02'", ds("2026-03-02")),
        ("ds IN ('2026-03-02', '2026-03-09', '2026-03-02')", ds("2026-03-02", "2026-03-09")),
        ("DS IN ('2026-03-02', NULL)", ds("2026-03-02", None)),
        ("ds IS NULL", ds(None)),
        ("ds = NULL", ds(None)),
        ("ds >= '2026-03-02'", ds("2026-03-02", "2026-03-05")),
        ("ds > '2026-03-02'", ds("2026-03-05")),
        ("ds < '2026-03-02'", ds("2026-03-01")),
        ("ds <= '2026-03-02'", ds("2026-03-01", "2026-03-02")),
        ("ds > '2026-03-01' AND ds < '2026-03-05'", ds("2026-03-02")),
        ("ds BETWEEN '2026-03-01' AND '2026-03-02'", ds("2026-03-01", "2026-03-02")),
        ("ds > '2026-03'", ds("2026-03-01", "2026-03-02", "2026-03-05")),
    ],
)
def test_partitions_can_be_named_by_values_lists_ranges_and_null(
    world: ManagerWorld, partition: str, expected: Scope
) -> None:
    run = world.sql(f"ALTER MATERIALIZED TABLE daily REFRESH PARTITION ({partition})").wait_for

    assert world.run(run or "").scope == expected
    assert str(expected) in str(world.show(f"EXPLAIN REFRESH daily PARTITION ({partition})"))


def test_rows_without_a_day_are_refreshed_by_the_partition_null(world: ManagerWorld) -> None:
    world.engine.commit("lake.default.orders", [{"ds": None, "amount": 7}, {"ds": "2026-03-01", "amount": 9}])

    world.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds IS NULL)")
    world.work()

    assert {"ds": None, "amount": 7} in world.rows()
    assert {"ds": "2026-03-01", "amount": 1} in world.rows()


def test_a_range_takes_partitions_of_the_table_whose_source_rows_went_away(world: ManagerWorld) -> None:
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-07", "amount": 1}])

    world.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds >= '2026-03-05')")
    world.work()

    assert {row["ds"] for row in world.rows()} == {"2026-03-01", "2026-03-02", "2026-03-07", None}


@pytest.mark.parametrize("value", ["18.11.2026", "2026-13-01", "2026-1-1", "2026-03-32", ""])
def test_a_value_that_is_none_of_the_date_formatter_is_refused(world: ManagerWorld, value: str) -> None:
    before = world.state()

    text = world.refused(
        lambda: world.sql(f"ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '{value}')"), DefinitionInvalid
    )

    assert text == (
        f"PARTITION (ds = '{value}'): the partitions of lake.default.daily are named by the date-formatter 'yyyy-MM-dd', "
        "and this is not such a value."
    )
    assert world.state() == before


def test_a_range_that_names_nothing_is_refused(world: ManagerWorld) -> None:
    text = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds > '2030')"), RequestInvalid
    )

    assert "names 0 partitions" in text


@pytest.mark.parametrize(
    ("partition", "why"),
    [
        ("ds > 'a' AND ds > 'b'", "partition column ds has two such bounds"),
        ("ds >", "expected the value of partition column ds in quotes"),
        ("ds IN ()", "expected the value of partition column ds in quotes"),
        ("ds <> 'a'", "expected the value of partition column ds in quotes"),
        ("ds > NULL", "expected the value of partition column ds in quotes"),
        ("ds = 'a', ds = 'b'", "partition column ds is given twice"),
    ],
)
def test_a_partition_that_cannot_be_read_is_refused(world: ManagerWorld, partition: str, why: str) -> None:
    before = world.state()

    text = world.refused(
        lambda: world.sql(f"ALTER MATERIALIZED TABLE daily REFRESH PARTITION ({partition})"), SqlSyntaxError
    )

    assert why in text
    assert world.state() == before
