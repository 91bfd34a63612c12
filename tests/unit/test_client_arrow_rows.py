from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as spark

from mt_core.base.rowset import Column, LogicalType
from mt_core.client.arrow import read_stream
from mt_core.client.arrow_rows import CHUNK_ROWS, arrow_rows
from mt_core.client.reader import ARROW_ROOTS
from mt_core.client.values import UnreadableValue, rows_converter
from mt_core.spark.results.arrow import ResultForm

BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=5, minutes=30))
MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "0001-01-02",
        "1900-01-01T12:30:00.000001",
        "1970-01-01",
        "2026-03-29T01:30",
        "2026-10-25T00:30",
        "2026-10-25T01:30:59.999999",
        "9999-12-30T23:59:59.999999",
    )
]
VALUES: list[tuple[spark.DataType, pa.DataType, list[Any]]] = [
    (spark.BooleanType(), pa.bool_(), [True, False]),
    (spark.ByteType(), pa.int8(), [-128, 127]),
    (spark.LongType(), pa.int64(), [-(2**63), 2**63 - 1, 0]),
    (spark.FloatType(), pa.float32(), [1.1, -0.0, float("nan"), float("inf"), 3.4028234663852886e38]),
    (spark.DoubleType(), pa.float64(), [0.1, -0.0, float("nan"), float("-inf"), 5e-324]),
    (
        spark.DecimalType(38, 3),
        pa.decimal128(38, 3),
        [Decimal("0.000"), Decimal("-12345678901234567890.120")],
    ),
    (spark.StringType(), pa.string(), ["", "naïve", 'a"b\\\n', "2026-01-01"]),
    (spark.BinaryType(), pa.binary(), [b"", b"\x00\xff"]),
    (spark.DateType(), pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    (spark.TimestampNTZType(), pa.timestamp("us"), MOMENTS),
]


def both(schema: spark.StructType, batch: pa.RecordBatch, zone: tzinfo) -> tuple[list[Any], list[Any]]:
    """Return the driver's rows from the JSON that the gateway makes of *batch*, and from its Arrow."""
    form = ResultForm(schema)
    shown = batch.select(range(len(form.columns)))
    from_json = list(rows_converter(form.columns, zone)(form.rows([batch])))
    chunks = arrow_rows(form.columns, zone)(read_stream(bytes(form.stream([shown]))))
    return from_json, [row for chunk in chunks for row in chunk]


@pytest.mark.parametrize(("kind", "arrow", "values"), VALUES, ids=lambda each: str(each)[:20])
@pytest.mark.parametrize("nulls", [[], [None]])
def test_arrow_gives_the_objects_that_json_gives(
    kind: spark.DataType, arrow: pa.DataType, values: list[Any], nulls: list[None]
) -> None:
    schema = spark.StructType([spark.StructField("a", kind)])
    batch = pa.RecordBatch.from_arrays([pa.array([*values, *nulls], arrow)], ["a"])

    from_json, from_arrow = both(schema, batch, BERLIN)

    assert [repr(row) for row in from_arrow] == [repr(row) for row in from_json]


@pytest.mark.parametrize("zone", [BERLIN, ZoneInfo("America/St_Johns"), ZoneInfo("UTC"), KOLKATA], ids=str)
def test_arrow_gives_the_wall_clocks_of_the_session_that_json_gives(zone: tzinfo) -> None:
    schema = spark.StructType([spark.StructField("a", spark.TimestampType())])
    moments = pa.array([*MOMENTS, None], pa.timestamp("us", tz="UTC"))
    name = zone.key if isinstance(zone, ZoneInfo) else "+05:30"
    wall_clocks = pc.local_timestamp(moments.cast(pa.timestamp("us", tz=name)))

    from_json, from_arrow = both(
        schema, pa.RecordBatch.from_arrays([moments, wall_clocks], ["a", "w0"]), zone
    )

    assert [repr(row) for row in from_arrow] == [repr(row) for row in from_json]


def test_a_page_becomes_rows_in_parts_of_a_few_thousand() -> None:
    table = pa.table({"a": pa.chunked_array([pa.array(range(20_000)), pa.array(range(20_000, 40_000))])})
    columns = (Column(name="a", type=LogicalType(root="BIGINT")),)

    chunks = list(arrow_rows(columns, None)(table))

    assert [len(chunk) for chunk in chunks] == [CHUNK_ROWS, CHUNK_ROWS, 40_000 - 2 * CHUNK_ROWS]
    assert [row for chunk in chunks for row in chunk] == [(number,) for number in range(40_000)]


@pytest.mark.parametrize(
    ("root", "kind"), [("DATE", pa.date32()), ("TIMESTAMP_WITHOUT_TIME_ZONE", pa.timestamp("us"))]
)
def test_a_year_that_python_has_no_room_for_is_an_error_that_names_the_column(
    root: str, kind: pa.DataType
) -> None:
    days = pa.array([10_000_000], pa.int32()).cast(pa.date32())
    table = pa.table({"due": days.cast(kind)})

    with pytest.raises(UnreadableValue, match=r"^Column due has a value .*29349.*CAST it to STRING"):
        list(arrow_rows((Column(name="due", type=LogicalType(root=root)),), None)(table))


@pytest.mark.parametrize(
    ("root", "expected"), [("BIGINT", True), ("VARIANT", False), ("INTERVAL_DAY_TIME", False)]
)
def test_what_arrow_would_give_otherwise_comes_as_json(root: str, expected: bool) -> None:
    assert (root in ARROW_ROOTS) is expected
