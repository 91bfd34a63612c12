"""The bounds of values, by which files are left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import pytest

from mt_core.spark.iceberg.bounds import Bound, condition_of


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
        ("string", ["it's", None], "(q.`k` IS NULL OR q.`k` IN (CAST('it\\'s' AS string)))"),
    ],
)
def test_few_values_are_named(type_: str, values: Sequence[object], condition: str) -> None:
    assert Bound(column="k", type=type_, low=values[0], high=values[-1]).among(values) == condition
