"""The net of old and new rows: what one has more copies of than the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from mt_core.spark.maintenance.row_images import net_of

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
