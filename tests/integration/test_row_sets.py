"""The rows of which two versions have not as many, and those of a table that are wanted,
as many of each as counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mt_core.incremental.delta import images_of
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.find_rows import LookupKeys, rows_with_keys
from mt_core.spark.iceberg.inline_plans import InlinePlans
from mt_core.spark.readings.row_images import net_rows, signed
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Row = tuple[Any, ...]
A, B, C, NULLS = (1, "a", Decimal("1.00")), (2, "b", None), (3, None, Decimal("3.50")), (None, None, None)
COLUMNS = "k INT, v STRING, d DECIMAL(10, 2)"
ROWS: Sequence[Row] = [
    (1, "a"),
    (1, "a"),
    (1, "b"),
    (None, "a"),
    (2, None),
    (None, None),
    (1, "a"),
    (2, None),
]


@dataclass(frozen=True, kw_only=True)
class Inline:
    """Queries over rows, each of which is planned anew."""

    session: SparkSession

    def rows(self, rows: Sequence[Row], columns: str) -> ComputedRows:
        return collect_or_checkpoint(self.session.createDataFrame(rows, columns))

    def run(self, make: Any, **given: ComputedRows) -> Sequence[Row]:
        """Return the rows of a query over frames of the rows that are *given*."""
        assert all(rows.java is not None for rows in given.values())
        before = started_jobs(self.session)
        found = InlinePlans().run(
            self.session,
            self.session,
            "query",
            lambda names: make(**{name: self.session.table(each) for name, each in names.items()}),
            given,
        )
        assert started_jobs(self.session) == before
        assert found is not None
        assert found.rows is not None
        return [tuple(row.values()) for row in found.rows.to_pylist()]


@pytest.fixture(scope="module")
def inline(module_driver: SparkDriver) -> Inline:
    return Inline(session=module_driver.new_session())


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
def test_the_net_of_rows_is_what_one_side_has_more_copies_of(
    inline: Inline, old: list[Row], new: list[Row]
) -> None:
    expected = Counter(new)
    expected.subtract(Counter(old))

    net = inline.run(
        lambda old, new: net_rows(signed(old, new, "copies"), "copies"),
        old=inline.rows(old, COLUMNS),
        new=inline.rows(new, COLUMNS),
    )

    assert {row[:-1]: row[-1] for row in net} == {row: copies for row, copies in expected.items() if copies}
    assert len(net) == len({row[:-1] for row in net})


def test_maps_are_told_apart_by_their_entries_in_order(inline: Inline) -> None:
    maps = collect_or_checkpoint(inline.session.sql("SELECT 1 AS k, map('a', 1, 'b', 2) AS m"))
    others = collect_or_checkpoint(inline.session.sql("SELECT 1 AS k, map('b', 2, 'a', 1) AS m"))

    def net(old: DataFrame, new: DataFrame) -> DataFrame:
        return net_rows(signed(old, new, "copies"), "copies").selectExpr("k", "map_keys(m)", "copies")

    assert inline.run(net, old=maps, new=maps) == []
    assert sorted(inline.run(net, old=maps, new=others), key=str) == [(1, ["a", "b"], -1), (1, ["b", "a"], 1)]


@pytest.mark.parametrize("copies", [[-1, 1, -1, 1], [-2, 3, 1, -1], [1, 1], []])
def test_each_row_of_one_side_is_there_as_often_as_it_has_copies(inline: Inline, copies: list[int]) -> None:
    rows = inline.rows(list(enumerate(copies)), "place INT, copies INT")

    def side(sign: int) -> list[int]:
        def image(rows: DataFrame) -> DataFrame:
            rows.createOrReplaceTempView("net")
            images = images_of("net", ["place"], "copies", few=True)
            return inline.session.sql(f"SELECT * FROM {images.added if sign > 0 else images.removed}")

        return [place for (place,) in inline.run(image, rows=rows)]

    for sign in (-1, 1):
        assert side(sign) == [place for place, count in enumerate(copies) for _ in range(sign * count)]


def found(
    inline: Inline, values: Sequence[Row], columns: str, keys: tuple[str, ...], copies: str | None = None
) -> list[int]:
    """Return the positions of the rows among ROWS that have some of *values*, as many of each
    as its *copies* say.
    """
    rows = inline.rows(
        [(*row, "f", place) for place, row in enumerate(ROWS)], "k INT, v STRING, _file STRING, _pos BIGINT"
    )
    wanted = LookupKeys(rows=inline.rows(values, columns), keys=keys, copies=copies)
    given = inline.run(
        lambda rows, wanted_rows: rows_with_keys(rows, wanted_rows, wanted),
        rows=rows,
        wanted_rows=wanted.rows,
    )
    return sorted(row[-1] for row in given)


@pytest.mark.parametrize(
    ("values", "columns", "expected"),
    [
        ([(1,)], "k INT", [0, 1, 2, 6]),
        ([(None,), (2,)], "k INT", [3, 4, 5, 7]),
        ([(1, "a")], "k INT, v STRING", [0, 1, 6]),
        ([(1, "b"), (2, "a")], "k INT, v STRING", [2]),
        ([(None, None), (2, None)], "k INT, v STRING", [4, 5, 7]),
        ([(3, "c")], "k INT, v STRING", []),
        ([], "k INT", []),
    ],
)
def test_rows_with_the_values_are_found_of_which_null_is_one(
    inline: Inline, values: Sequence[Row], columns: str, expected: list[int]
) -> None:
    keys = ("k",) if columns == "k INT" else ("k", "v")

    assert found(inline, values, columns, keys) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(1, "a", 2)], [0, 1]),
        ([(1, "a", 9), (2, None, 1)], [0, 1, 4, 6]),
        ([(None, None, 1), (1, "b", 1)], [2, 5]),
    ],
)
def test_only_as_many_copies_of_a_row_are_found_as_are_wanted(
    inline: Inline, values: Sequence[Row], expected: list[int]
) -> None:
    assert found(inline, values, "k INT, v STRING, copies INT", ("k", "v"), "copies") == expected
