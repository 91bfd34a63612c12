"""Rows that are looked up among those of a table, and the bounds by which files are left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from mt_core.spark.maintenance.bounds import Bound, condition_of
from mt_core.spark.maintenance.touched_rows import found_in

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string()), ("_pos", pa.int64())])
Row = tuple[int | None, str | None]
ROWS: Sequence[Row] = [(1, "a"), (1, "a"), (1, "b"), (None, "a"), (2, None), (None, None), (1, "a"), (2, None)]


def found(values: Sequence[tuple[object, ...]], names: Sequence[str], *, copies: bool = False) -> list[int]:
    """Return the positions of the rows among ROWS that are found; the last of each of *values* is its copies, if they count."""
    rows = pa.Table.from_pylist([{"k": k, "v": v, "_pos": place} for place, (k, v) in enumerate(ROWS)], SCHEMA)
    schema = pa.schema([*(SCHEMA.field(name) for name in names), *([("copies", pa.int32())] if copies else [])])
    wanted = pa.Table.from_pylist([dict(zip(schema.names, value, strict=True)) for value in values], schema)
    places: list[int] = found_in(rows, wanted, names, "copies" if copies else None)["_pos"].to_pylist()
    return places


@pytest.mark.parametrize(
    ("values", "names", "expected"),
    [
        ([(1,)], ["k"], [0, 1, 2, 6]),
        ([(None,), (2,)], ["k"], [3, 4, 5, 7]),
        ([(1, "a")], ["k", "v"], [0, 1, 6]),
        ([(1, "b"), (2, "a")], ["k", "v"], [2]),
        ([(None, None), (2, None)], ["k", "v"], [4, 5, 7]),
        ([(3, "c")], ["k", "v"], []),
        ([], ["k"], []),
    ],
)
def test_rows_with_the_values_are_found_of_which_null_is_one(
    values: Sequence[Row], names: Sequence[str], expected: list[int]
) -> None:
    assert found(values, names) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(1, "a", 2)], [0, 1]),
        ([(1, "a", 9), (2, None, 1)], [0, 1, 4, 6]),
        ([(None, None, 1), (1, "b", 1)], [2, 5]),
    ],
)
def test_only_as_many_copies_of_a_row_are_found_as_are_wanted(
    values: Sequence[tuple[object, ...]], expected: list[int]
) -> None:
    assert found(values, ["k", "v"], copies=True) == expected


def test_two_instants_with_one_local_time_are_not_taken_for_each_other() -> None:
    # 02:30 in Rome, before and after the clocks are turned back.
    instants = pa.array([1761438600000000, 1761442200000000], pa.timestamp("us", tz="Europe/Rome"))
    rows = pa.table({"at": instants, "v": ["a", "a"]})
    wanted = pa.table({"at": instants, "v": ["a", "a"], "copies": [1, 1]})

    assert found_in(rows, wanted, ["at", "v"], "copies") == rows


def test_bounds_are_a_condition_on_each_column_that_null_meets() -> None:
    bounds = [
        Bound(column="at", type="date", low=date(2026, 1, 2), high=date(2026, 3, 4)),
        Bound(column="n", type="decimal(4,2)", low=Decimal("-1.50"), high=Decimal("2.00")),
    ]

    assert condition_of(bounds) == (
        "(q.`at` IS NULL OR q.`at` BETWEEN CAST('2026-01-02' AS date) AND CAST('2026-03-04' AS date)) AND "
        "(q.`n` IS NULL OR q.`n` BETWEEN CAST('-1.50' AS decimal(4,2)) AND CAST('2.00' AS decimal(4,2)))"
    )
    assert condition_of([]) == "true"


@pytest.mark.parametrize(
    ("type_", "values", "condition"),
    [
        ("int", [1], "q.`k` IN (CAST('1' AS int))"),
        ("int", [1, None, 2], "(q.`k` IS NULL OR q.`k` IN (CAST('1' AS int), CAST('2' AS int)))"),
        ("string", ["it's"], "(q.`k` = CAST('it\\'s' AS string))"),
        ("string", ["a", None, "b"], "(q.`k` IS NULL OR (q.`k` = CAST('a' AS string) OR q.`k` = CAST('b' AS string)))"),
    ],
)
def test_few_values_are_named(type_: str, values: Sequence[object], condition: str) -> None:
    assert Bound(column="k", type=type_, low=values[0], high=values[-1]).among(values) == condition
