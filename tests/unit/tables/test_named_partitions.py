"""REFRESH PARTITION: values checked against their date-formatter, lists, ranges and NULL."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from mt_core.errors import DefinitionInvalid, RequestInvalid, SqlSyntaxError
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.run import RunStatus
from mt_core.model.table import Column
from tests.support.manager_world import DAILY, ManagerWorld

ROWS = [{"ds": ds, "amount": 1} for ds in ("2026-03-01", "2026-03-02", "2026-03-05", None)]
REFRESH = "ALTER MATERIALIZED TABLE daily REFRESH PARTITION"


@pytest.fixture
def world() -> ManagerWorld:
    made = ManagerWorld()
    made.engine.commit("lake.default.orders", ROWS)
    made.sql(DAILY)
    made.work()
    return made


@pytest.fixture
def dated() -> ManagerWorld:
    """The same table by days of a DATE, whose files are laid out by buckets besides."""
    made = ManagerWorld()
    rows = [{**row, "ds": None if row["ds"] is None else date.fromisoformat(str(row["ds"]))} for row in ROWS]
    columns = [Column(name="ds", type="date"), Column(name="amount", type="int")]
    made.engine.create_source("lake.default.orders", rows, columns)
    made.sql(DAILY.replace("(ds)", "(ds, bucket(4, amount))"))
    made.work()
    return made


def ds(*values: str | None) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": value}) for value in values)


NAMED = pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("ds = '2026-03-02'", ds("2026-03-02")),
        ("ds = DATE '2026-03-02'", ds("2026-03-02")),
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
    ],
)


@NAMED
def test_partitions_can_be_named_by_values_lists_ranges_and_null(
    world: ManagerWorld, partition: str, expected: Scope
) -> None:
    run = world.sql(f"ALTER MATERIALIZED TABLE daily REFRESH PARTITION ({partition})").wait_for

    assert world.run(run or "").scope == expected
    assert str(expected) in str(world.show(f"EXPLAIN REFRESH daily PARTITION ({partition})"))


@NAMED
def test_days_of_a_date_can_be_named_by_values_lists_ranges_and_null(
    dated: ManagerWorld, partition: str, expected: Scope
) -> None:
    run = dated.sql(f"{REFRESH} ({partition})").wait_for
    dated.work()

    assert (dated.run(run or "").scope, dated.run(run or "").status) == (expected, RunStatus.SUCCEEDED)
    assert {row["ds"] for row in dated.rows()} == {*(date(2026, 3, day) for day in (1, 2, 5)), None}


def test_texts_that_begin_as_a_value_are_bounds_of_strings_and_not_of_dates(
    world: ManagerWorld, dated: ManagerWorld
) -> None:
    run = world.sql(f"{REFRESH} (ds > '2026-03')").wait_for

    assert world.run(run or "").scope == ds("2026-03-01", "2026-03-02", "2026-03-05")
    for bound in ("ds > '2026-03'", "ds BETWEEN '2026-03-01' AND '2026-03'"):
        refusal = dated.refused(lambda text=bound: dated.sql(f"{REFRESH} ({text})"), DefinitionInvalid)
        assert refusal == (
            "PARTITION (ds = '2026-03'): ds of lake.default.daily is DATE, "
            "and this is not a day in the form yyyy-MM-dd."
        )


def test_a_schedule_time_refreshes_its_day_of_a_date_and_the_days_with_late_rows(dated: ManagerWorld) -> None:
    rows = [{"ds": date(2026, 3, day), "amount": 2} for day in (1, 2)]
    before = [{"ds": date(2026, 2, 27), "amount": 1}]
    dated.engine.commit("lake.default.orders", before)
    dated.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    dated.work()
    dated.pass_days(1)
    dated.engine.commit("lake.default.orders", [*before, *rows, {"ds": date(2026, 2, 27), "amount": 3}])

    run_id = dated.tick(datetime(2026, 3, 2, tzinfo=UTC)).run_id
    dated.work()

    assert dated.run(run_id).scope == ds("2026-02-27", "2026-03-01")
    assert "late rows in 1 earlier partition: ds=2026-02-27" in str(dated.run(run_id).reason)
    assert {(row["ds"], row["amount"]) for row in dated.rows()} >= {
        (date(2026, 2, 27), 3),
        (date(2026, 3, 1), 2),
    }
    assert "bucket(4, `amount`)" in str(dated.show("SHOW CREATE MATERIALIZED TABLE daily"))


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
        lambda: world.sql(f"ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '{value}')"),
        DefinitionInvalid,
    )

    assert text == (
        f"PARTITION (ds = '{value}'): the partitions of lake.default.daily are named by the date-formatter "
        "'yyyy-MM-dd', and this is not such a value."
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
