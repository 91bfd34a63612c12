"""SUM and AVG over rows that change, of numbers that are together more than their type holds for a moment,
on a real Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.driver.failures import SPARK_ERRORS
from tests.integration.operator_stream import OperatorStream
from tests.integration.test_aggregates import aggregating, change
from tests.integration.test_aggregates import session as session

pytestmark = pytest.mark.spark

MOST, LEAST, NINES = 2**63 - 1, -(2**63), 10**38 - 1
BIGINTS = f"CASE v WHEN 9 THEN {MOST}L WHEN -9 THEN -{MOST}L - 1L ELSE CAST(v AS BIGINT) END"
DECIMALS = f"CASE v WHEN 9 THEN {NINES} WHEN -9 THEN -{NINES} ELSE CAST(v AS DECIMAL(38, 0)) END"


class Sums:
    """The sum, the sum of unlike values and the mean, or the number, of *values*:
    an expression over v of rows that change.
    """

    def __init__(self, session: SparkSession, folder: Path, values: str, *, ansi: bool) -> None:
        session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
        # The mean of a DECIMAL(38) has four digits less.
        last = "count(x)" if values is DECIMALS else "avg(x)"
        text = (
            f"SELECT sum(x) AS s, sum(DISTINCT x) AS d, {last} AS a FROM (SELECT {values} AS x FROM changes)"
        )
        self.stream = OperatorStream(
            session, folder, f"k STRING, v INT, {ROW_KIND} TINYINT", aggregating(text)
        )

    def after(self, come: Sequence[int], go: Sequence[int] = ()) -> tuple[object, object, object]:
        """Return the three after a batch of which the numbers *come* first, and others *go* then."""
        rows = [change(RowKind.UPDATE_AFTER, (None, each)) for each in come]
        *_, (kind, row) = self.stream.feed(
            *rows, *(change(RowKind.UPDATE_BEFORE, (None, each)) for each in go)
        )
        assert kind in {"+I", "+U"}
        return row["s"], row["d"], row["a"]


@pytest.fixture
def start(session: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Sums]]:
    started = list[Sums]()

    def sums(values: str, *, ansi: bool) -> Sums:
        started.append(Sums(session, tmp_path, values, ansi=ansi))
        return started[-1]

    yield sums
    started[0].stream.stop()


def test_a_sum_of_bigints_may_be_too_large_between_two_rows_of_a_batch(start: Callable[..., Sums]) -> None:
    sums = start(BIGINTS, ansi=True)

    assert sums.after([9]) == (MOST, MOST, float(MOST))
    assert sums.after([9, 0], [9]) == (MOST, MOST, MOST / 2)
    assert sums.after([-9, -9], [9, -9]) == (LEAST, LEAST, LEAST / 2)
    assert sums.after([1, 2], [-9, 0]) == (3, 3, 1.5)


def test_a_sum_of_bigints_that_is_too_large_is_an_error_in_ansi_mode(start: Callable[..., Sums]) -> None:
    sums = start(BIGINTS, ansi=True)

    assert sums.after([-9, 9]) == (-1, -1, -0.5)
    with pytest.raises(SPARK_ERRORS, match="ARITHMETIC_OVERFLOW"):
        sums.after([9, 2])


def test_without_ansi_mode_a_sum_of_bigints_loses_its_highest_bits_until_it_fits(
    start: Callable[..., Sums],
) -> None:
    sums = start(BIGINTS, ansi=False)

    assert sums.after([9, 9, 9]) == (3 * MOST - 2**64, MOST, float(MOST))
    assert sums.after([], [9, 9]) == (MOST, MOST, float(MOST))


@pytest.mark.parametrize("ansi", [True, False])
def test_a_sum_of_decimals_may_be_too_large_between_two_rows_of_a_batch(
    start: Callable[..., Sums], ansi: bool
) -> None:
    sums = start(DECIMALS, ansi=ansi)

    assert sums.after([9]) == (NINES, NINES, 1)
    assert sums.after([9, -9], [9]) == (0, 0, 2)
    assert sums.after([1, 2], [9, -9]) == (3, 3, 2)


def test_without_ansi_mode_a_sum_of_decimals_is_null_while_it_is_too_large(
    start: Callable[..., Sums],
) -> None:
    sums = start(DECIMALS, ansi=False)

    assert sums.after([9, 9, 1]) == (None, None, 3)
    assert sums.after([], [9, 1]) == (NINES, NINES, 1)


def test_a_sum_of_decimals_that_is_too_large_is_an_error_in_ansi_mode(start: Callable[..., Sums]) -> None:
    sums = start(DECIMALS, ansi=True)

    with pytest.raises(SPARK_ERRORS, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        sums.after([9, 9])
