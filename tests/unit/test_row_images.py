"""The net of old and new rows: what one has more copies of than the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest

from mt_core.spark.maintenance.row_images import MOST_COMPARED, SMALL, are_few, as_many, net_of

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(10, 2)), ("copies", pa.int32())])
Row = tuple[int | None, str | None, Decimal | None]
A, B, C, NULLS = (1, "a", Decimal("1.00")), (2, "b", None), (3, None, Decimal("3.50")), (None, None, None)


def net(old: Sequence[Row], new: Sequence[Row]) -> dict[Row, int]:
    rows = [(*row, copies) for side, copies in ((old, -1), (new, 1)) for row in side]
    columns = [list(column) for column in zip(*rows, strict=True)]
    found = net_of(
        pa.Table.from_arrays(
            [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        ),
        "copies",
    )
    assert found.schema.equals(SCHEMA)
    return {(row["k"], row["v"], row["d"]): row["copies"] for row in found.to_pylist()}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([A, B, NULLS], [A, B, NULLS]),
        ([A, B, C], [C, A, B]),
        ([A, B, C], [A, C, C]),
        ([A, A, B], [A, B, B]),
        ([NULLS, A], [B, NULLS]),
        ([A, NULLS, NULLS], [NULLS]),
        ([B], [A, B, C, B]),
        ([A], []),
        ([], [A, A]),
    ],
)
def test_the_net_of_rows_is_what_one_side_has_more_copies_of(old: list[Row], new: list[Row]) -> None:
    expected = Counter(new)
    expected.subtract(Counter(old))

    assert net(old, new) == {row: copies for row, copies in expected.items() if copies}


@pytest.mark.parametrize(
    ("copies", "sign", "expected"),
    [
        ([-1, 1, -1, 1], -1, [0, 2]),
        ([-1, 1, -1, 1], 1, [1, 3]),
        ([-2, 3, 1, -1], 1, [1, 1, 1, 2]),
        ([-2, 3, 1, -1], -1, [0, 0, 3]),
        ([1, 1], -1, []),
        ([], 1, []),
    ],
)
def test_each_row_of_one_side_is_there_as_often_as_it_has_copies(
    copies: list[int], sign: int, expected: list[int]
) -> None:
    rows = pa.table({"place": range(len(copies)), "copies": pa.array(copies, pa.int32())})

    assert as_many(rows, "copies", sign)["place"].to_pylist() == expected


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task of a scan of Iceberg's, and its file."""

    rows: int

    def file(self) -> Task:
        return self

    def recordCount(self) -> int:  # noqa: N802 - Iceberg's
        return self.rows


@pytest.mark.parametrize(
    ("size", "rows", "few"),
    [
        (SMALL, [MOST_COMPARED - 1, 1], True),
        (SMALL + 1, [1], False),
        (None, [1], False),
        # The files of rows that are alike are small.
        (1, [MOST_COMPARED, 1], False),
    ],
)
def test_files_are_held_if_neither_their_bytes_nor_their_rows_are_many(
    size: int | None, rows: Sequence[int], few: bool
) -> None:
    assert are_few(size, [Task(rows=each) for each in rows]) is few
