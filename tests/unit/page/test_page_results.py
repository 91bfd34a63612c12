"""Results as text and as values to draw."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from mt_core.base.rowset import BIGINT, DOUBLE, STRING, Column, LogicalType, RowKind, RowSet
from mt_core.errors import QueryFailed
from mt_core.gateway.page.console.results import axes, count_of, drawing_of, page_of
from mt_core.spark.results.arrow import ResultForm
from mt_core.spark.results.row_stream import StreamedRows
from mt_core.spark.results.spool import Spools
from tests.support.fake_rows import FakeRows
from tests.support.streamed_rows import ended

DATE, TIMESTAMP = LogicalType(root="DATE"), LogicalType(root="TIMESTAMP_WITH_LOCAL_TIME_ZONE")
DECIMAL = LogicalType(root="DECIMAL", extras={"precision": 10, "scale": 2})


def columns(*types: LogicalType) -> tuple[Column, ...]:
    return tuple(Column(name=f"c{at}", type=type_) for at, type_ in enumerate(types))


def drawn(types: tuple[LogicalType, ...], *rows: list[Any]) -> Any:
    return drawing_of(RowSet(columns=columns(*types), rows=rows))


@given(st.integers(0, 600))
def test_rows_are_counted_without_reading_them(count: int) -> None:
    rows = FakeRows(*([number] for number in range(count)))

    assert count_of(rows) == count


@given(st.integers(0, 350), st.integers(0, 400))
def test_a_page_has_the_rows_that_are_there_after_its_beginning(count: int, start: int) -> None:
    rows = FakeRows(*([number] for number in range(count)))

    page = page_of(rows, start)

    assert [row.cells[0].text for row in page.rows] == [str(number) for number in range(count)][start:][:100]
    assert (page.total, page.running) == (count, True)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((STRING, BIGINT, TIMESTAMP), (2, [1])),
        ((BIGINT, DATE, DOUBLE, DECIMAL), (1, [0, 2, 3])),
        ((DOUBLE, STRING, BIGINT), (0, [2])),
        ((BIGINT, STRING), None),
        ((DATE, STRING), None),
        ((STRING,), None),
        ((DATE, *[BIGINT] * 9), (0, [1, 2, 3, 4, 5, 6])),
    ],
)
def test_numbers_are_drawn_over_the_first_instant_or_else_the_first_number(
    types: tuple[LogicalType, ...], expected: tuple[int, list[int]] | None
) -> None:
    assert axes(columns(*types)) == expected


def test_values_are_drawn_in_the_order_of_what_they_are_drawn_over() -> None:
    drawing = drawn((DATE, DECIMAL), ["1970-01-03", "2.50"], ["1970-01-02", 1], [None, 3])

    assert (drawing.x.values, drawing.series[0].values, drawing.rows) == ([86400.0, 172800.0], [1.0, 2.5], 3)


def test_an_instant_is_drawn_at_its_time_in_utc() -> None:
    drawing = drawn((TIMESTAMP, BIGINT), ["1970-01-01T00:00:01.5Z", 1], ["1970-01-01 00:00:02", 2])

    assert drawing.x.values == [1.5, 2.0]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "NaN", "Infinity", "nothing"])
def test_what_is_no_finite_number_is_a_gap(value: Any) -> None:
    drawing = drawn((BIGINT, DOUBLE), [1, value], [2, 5])

    assert drawing.series[0].values == [None, 5.0]


def test_the_changes_of_a_stream_are_not_drawn() -> None:
    rows = FakeRows([1, 2], columns=columns(BIGINT, BIGINT), kinds=[RowKind.INSERT])

    assert drawing_of(rows) is None
    assert not page_of(rows, 0).drawable


def test_the_pages_of_a_spool_are_read_in_any_order_and_what_was_read_before_a_failure_remains() -> None:
    form = ResultForm(spark.StructType([spark.StructField("n", spark.LongType(), nullable=False)]))

    def batches() -> Generator[pa.RecordBatch | None]:
        for start in range(0, 450, 150):
            yield pa.record_batch([pa.array(range(start, start + 150), pa.int64())], schema=form.schema)
            yield None
        raise QueryFailed("[DIVIDE_BY_ZERO] Division by zero.")

    rows = StreamedRows(form, Spools(max_memory=0).new(form.schema), batches(), lambda: None)
    rows.begin()
    ended(rows)

    pages = [page_of(rows, start) for start in (400, 0, 200, 0, 450)]

    assert [(page.first, page.last) for page in pages] == [(401, 450), (1, 100), (201, 300), (1, 100), (0, 0)]
    assert {(page.total, page.running) for page in pages} == {(450, False)}
    rows.close()
    assert count_of(rows) == 0
