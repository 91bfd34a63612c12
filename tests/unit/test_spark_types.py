from __future__ import annotations

import json
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from mt_core.base.rowset import STRING_LENGTH, Column, LogicalType
from mt_core.errors import Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.spark.results.json_text import json_rows, writer
from mt_core.spark.results.json_values import ARROW_CASTS, JSON_CASTS, casts, encoder
from mt_core.spark.results.types import logical_type, result_columns

POINT = spark.StructType(
    [spark.StructField("x", spark.IntegerType()), spark.StructField("y", spark.StringType())]
)


def moments(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.timestamp("us"))


@pytest.mark.parametrize(
    ("data_type", "root", "extras"),
    [
        (spark.CharType(4), "CHAR", {"length": 4}),
        (spark.VarcharType(9), "VARCHAR", {"length": 9}),
        (spark.StringType(), "VARCHAR", {"length": STRING_LENGTH}),
        (spark.DecimalType(38, 18), "DECIMAL", {"precision": 38, "scale": 18}),
        (spark.YearMonthIntervalType(0, 0), "INTERVAL_YEAR_MONTH", {"precision": 4, "resolution": "YEAR"}),
        (
            spark.DayTimeIntervalType(1, 2),
            "INTERVAL_DAY_TIME",
            {"precision": 6, "fractionalPrecision": 6, "resolution": "HOUR_TO_MINUTE"},
        ),
        (spark.CalendarIntervalType(), "VARCHAR", {"length": STRING_LENGTH}),
        (
            spark.ArrayType(spark.LongType(), containsNull=False),
            "ARRAY",
            {"elementType": {"type": "BIGINT", "nullable": False}},
        ),
    ],
)
def test_a_spark_type_has_one_logical_type(
    data_type: spark.DataType, root: str, extras: dict[str, Any]
) -> None:
    found = logical_type(data_type, nullable=False)

    assert found == LogicalType(root=root, nullable=False, extras=extras)


def test_fields_of_a_row_keep_their_comments_and_null_has_no_nullability() -> None:
    row = spark.StructType(
        [
            spark.StructField("a", spark.NullType()),
            spark.StructField("b", spark.DateType(), nullable=False, metadata={"comment": "a day"}),
        ]
    )

    found = logical_type(row).extras

    assert found == {
        "fields": [
            {"name": "a", "fieldType": {"type": "NULL"}},
            {"name": "b", "fieldType": {"type": "DATE", "nullable": False}, "description": "a day"},
        ]
    }


def test_result_columns_keep_name_nullability_and_comment() -> None:
    schema = spark.StructType([spark.StructField("a", spark.IntegerType(), False, {"comment": "an a"})])

    assert result_columns(schema) == (
        Column(name="a", type=LogicalType(root="INTEGER", nullable=False), comment="an a"),
    )


@pytest.mark.parametrize(
    ("data_type", "array", "values"),
    [
        (spark.LongType(), pa.array([1, None, -(2**63)], pa.int64()), [1, None, -(2**63)]),
        (spark.BooleanType(), pa.array([True, None, False]), [True, None, False]),
        (spark.FloatType(), pa.array([1.1, None, 1e20], pa.float32()), [1.1, None, 1e20]),
        (
            spark.DoubleType(),
            pa.array([float("nan"), None, float("inf"), float("-inf"), 0.1]),
            ["NaN", None, "Infinity", "-Infinity", 0.1],
        ),
        (spark.FloatType(), pa.array([float("nan"), float("-inf")], pa.float32()), ["NaN", "-Infinity"]),
        (
            spark.DecimalType(38, 2),
            pa.array([Decimal("100.00"), None, Decimal("0.00"), Decimal("9" * 36 + ".99")]),
            [Decimal("1E+2"), None, Decimal(0), Decimal("9" * 36 + ".99")],
        ),
        (spark.StringType(), pa.array(["", None, "ü"]), ["", None, "ü"]),
        (spark.BinaryType(), pa.array([b"\n\xff", None, b""]), ["Cv8=", None, ""]),
        (
            spark.DateType(),
            pa.array([date(2024, 2, 29), None, date(1, 1, 1)]),
            ["2024-02-29", None, "0001-01-01"],
        ),
        (
            spark.TimestampNTZType(),
            moments("2024-01-02 03:04:00", None, "9999-12-31 23:59:59.999999"),
            ["2024-01-02T03:04:00", None, "9999-12-31T23:59:59.999999"],
        ),
        (
            spark.TimestampType(),
            moments("2024-01-02 03:04:05.120000", None),
            ["2024-01-02T03:04:05.12Z", None],
        ),
        (
            spark.TimeType(),
            pa.array([time(1, 2, 30), None, time(0, 0, 0, 500)], pa.time64("ns")),
            ["01:02:30", None, "00:00:00.0005"],
        ),
        (
            spark.DayTimeIntervalType(),
            pa.array([timedelta(seconds=1.5), None], pa.duration("us")),
            [1500, None],
        ),
        (spark.NullType(), pa.nulls(2), [None, None]),
        (
            POINT,
            pa.array([{"x": 1, "y": None}, None], pa.struct([("x", pa.int32()), ("y", pa.string())])),
            [{"x": 1, "y": None}, None],
        ),
    ],
)
def test_values_are_encoded_as_flink_does(
    data_type: spark.DataType, array: pa.Array, values: list[Any]
) -> None:
    encode = encoder(data_type, "c")

    assert encode(array) == values
    assert json_rows([array], [writer(data_type, encode)]) == bytes(
        JsonAnswer([{"kind": "INSERT", "fields": [value]} for value in values]).body
    )


@pytest.mark.parametrize(
    "text", ['quote " here', "back\\slash", "tab\t", "line\n", "nul\x00", "\x1f", "\x7f", "\u2028", "😀", ""]
)
def test_a_text_is_escaped_in_json_rows_as_json_wants_it(text: str) -> None:
    rows = json_rows(
        [pa.array([text, None, "plain"])], [writer(spark.StringType(), encoder(spark.StringType(), "c"))]
    )

    assert [row["fields"] for row in json.loads(rows)] == [[text], [None], ["plain"]]


def test_json_rows_have_all_columns_and_none_make_an_empty_array() -> None:
    types: list[spark.DataType] = [spark.LongType(), spark.ArrayType(spark.DoubleType()), spark.DoubleType()]
    writers = [writer(each, encoder(each, "c")) for each in types]
    columns = [pa.array([1, None]), pa.array([[0.5, None], None]), pa.array([None, 1e22])]

    assert json.loads(json_rows(columns, writers)) == [
        {"kind": "INSERT", "fields": [1, [0.5, None], None]},
        {"kind": "INSERT", "fields": [None, None, 1e22]},
    ]
    assert json_rows([column.slice(0, 0) for column in columns], writers) == b"[]"


def test_a_slice_of_nested_values_is_encoded_like_the_whole() -> None:
    data_type = spark.ArrayType(spark.MapType(spark.StringType(), POINT))
    rows = [[[("k", {"x": n, "y": str(n)})], None] if n % 3 else None for n in range(10)]
    arrow_type = pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("y", pa.string())])))
    array = pa.array(rows, arrow_type)
    encode = encoder(data_type, "c")

    pieces = [value for start in range(0, 10, 4) for value in encode(array.slice(start, 4))]

    assert pieces == encode(array)
    assert pieces[:3] == [None, [{"k": {"x": 1, "y": "1"}}, None], [{"k": {"x": 2, "y": "2"}}, None]]


@pytest.mark.parametrize(
    ("key_type", "keys", "texts"),
    [
        (spark.IntegerType(), pa.array([1, -2], pa.int32()), ["1", "-2"]),
        (spark.BooleanType(), pa.array([True, False]), ["TRUE", "FALSE"]),
        (spark.DecimalType(5, 2), pa.array([Decimal("100.00"), Decimal("1.50")]), ["100.00", "1.50"]),
        (spark.DateType(), pa.array([date(2024, 2, 29), date(1, 1, 1)]), ["2024-02-29", "0001-01-01"]),
    ],
)
def test_keys_of_a_map_become_texts(key_type: spark.DataType, keys: pa.Array, texts: list[str]) -> None:
    array = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array(["a", "b"]))

    assert encoder(spark.MapType(key_type, spark.StringType()), "c")(array) == [
        dict(zip(texts, "ab", strict=True))
    ]


def test_a_map_with_nested_keys_has_no_form_in_json() -> None:
    by_point = spark.StructType([spark.StructField("m", spark.MapType(POINT, spark.StringType()))])

    with pytest.raises(Unsupported, match=r"Column c has a map<struct<x:int,y:string>,string>.*map_entries"):
        encoder(by_point, "c")


@pytest.mark.parametrize(
    ("data_type", "steps"),
    [
        (spark.StringType(), []),
        (POINT, []),
        (spark.ArrayType(spark.CalendarIntervalType()), [spark.ArrayType(spark.StringType())]),
        (spark.YearMonthIntervalType(), [spark.YearMonthIntervalType(1, 1), spark.IntegerType()]),
        (spark.YearMonthIntervalType(1, 1), [spark.YearMonthIntervalType(1, 1), spark.IntegerType()]),
    ],
)
def test_spark_casts_what_arrow_cannot_carry(data_type: spark.DataType, steps: list[spark.DataType]) -> None:
    assert casts(data_type, ARROW_CASTS) == steps
    assert casts(data_type, JSON_CASTS) == steps


def test_spark_casts_instants_to_wall_clocks_for_json_only() -> None:
    assert (casts(spark.TimestampType(), ARROW_CASTS), casts(spark.TimestampType(), JSON_CASTS)) == (
        [],
        [spark.TimestampNTZType()],
    )
