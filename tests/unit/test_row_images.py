"""Files whose rows are few enough to be compared in this process."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mt_core.spark.incremental.row_images import MOST_COMPARED, SMALL, are_few


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
    assert are_few(size, sum(rows)) is few
