"""The sums of rows that came less those of rows that left, by group."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from mt_core.maintenance.merging import Merge
from mt_core.spark.maintenance.contributions import subtracted

MERGE: Merge = (None, "Count", "Sum")
Row = tuple[str | None, int, int | Decimal | None]


def rows(*given: Row, kind: pa.DataType | None = None) -> pa.Table:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", kind or pa.int64())])
    return pa.Table.from_pylist([dict(zip("knv", row, strict=True)) for row in given], schema=schema)


def groups(removed: Sequence[Row], added: Sequence[Row], *, counted: bool = True) -> dict[object, tuple[object, ...]]:
    found = subtracted(rows(*removed), rows(*added), MERGE, counted=counted, doubt="doubt")
    assert found is not None
    assert found.column_names == ["k", "n", "v", "doubt"]
    return {row["k"]: (row["n"], row["v"], row["doubt"]) for row in found.to_pylist()}


@pytest.mark.parametrize(
    ("removed", "added", "expected"),
    [
        ([("a", 1, 5)], [("a", 1, 7)], {"a": (0, 2, False)}),
        ([(None, 1, 5)], [(None, 1, 7), (None, 1, None)], {None: (1, 2, False)}),
        ([("a", 1, 5), ("a", 1, 2)], [("a", 1, 3), ("a", 1, 4)], {}),
        ([("a", 1, None)], [("a", 1, None)], {}),
        ([("a", 0, None)], [("b", 0, None)], {"a": (0, None, False), "b": (0, None, False)}),
        ([("a", 1, 5)], [], {"a": (-1, -5, True)}),
        ([("a", 1, 5)], [("a", 1, None)], {"a": (0, -5, True)}),
        ([], [("a", 1, 5), ("b", 1, None)], {"a": (1, 5, False), "b": (1, None, False)}),
        ([], [], {}),
    ],
)
def test_groups_that_differ_have_the_change_of_their_sums_and_whether_it_is_in_doubt(
    removed: list[Row], added: list[Row], expected: dict[object, tuple[object, ...]]
) -> None:
    assert groups(removed, added) == expected


def test_a_group_that_rows_only_left_is_in_doubt_where_no_column_counts_its_rows() -> None:
    found = groups([("a", 1, None), ("b", 1, None)], [("b", 1, 2)], counted=False)

    assert {key: doubt for key, (_, _, doubt) in found.items()} == {"a": True, "b": False}


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        (pa.int64(), 2**62 - 1, True),
        (pa.int64(), 2**62, False),
        (pa.int64(), -(2**63), False),
        (pa.decimal128(38, 2), Decimal(10) ** 35, True),
        (pa.decimal128(38, 2), Decimal("5e35"), False),
        (pa.decimal128(5, 2), Decimal("499.99"), True),
        (pa.decimal128(5, 2), Decimal("-500.00"), False),
    ],
)
def test_sums_that_could_exceed_their_type_are_left_to_spark(
    kind: pa.DataType, value: int | Decimal, fits: bool
) -> None:
    found = subtracted(
        rows(("a", 1, value), kind=kind), rows(("b", 1, value), kind=kind), MERGE, counted=True, doubt="doubt"
    )

    assert (found is not None) is fits
    if found is not None:
        assert found.schema.field("v").type == kind
        assert sorted(found["v"].to_pylist()) == sorted([value, -value])
