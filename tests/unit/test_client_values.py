from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import inf, nan
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from mt_core.base.rowset import BIGINT, DOUBLE, INT, STRING, STRING_MAP, Column, LogicalType
from mt_core.client.arrow import arrow_table
from mt_core.client.values import UnreadableValue, rows_converter, zone_for

BERLIN = ZoneInfo("Europe/Berlin")
LOCAL = LogicalType(root="TIMESTAMP_WITH_LOCAL_TIME_ZONE", extras={"precision": 6})
PLAIN = LogicalType(root="TIMESTAMP_WITHOUT_TIME_ZONE", extras={"precision": 6})
BYTES = LogicalType(root="VARBINARY", extras={"length": 2147483647})
DECIMAL = LogicalType(root="DECIMAL", extras={"precision": 38, "scale": 2})
DAY_TIME = LogicalType(
    root="INTERVAL_DAY_TIME", extras={"precision": 6, "fractionalPrecision": 6, "resolution": "DAY"}
)
YEAR_MONTH = LogicalType(root="INTERVAL_YEAR_MONTH", extras={"precision": 4, "resolution": "YEAR_TO_MONTH"})


def array_of(kind: LogicalType) -> LogicalType:
    return LogicalType(root="ARRAY", extras={"elementType": kind.to_json()})


def row_of(**fields: LogicalType) -> LogicalType:
    shown = [{"name": name, "fieldType": kind.to_json()} for name, kind in fields.items()]
    return LogicalType(root="ROW", extras={"fields": shown})


def map_of(kind: LogicalType) -> LogicalType:
    return LogicalType(root="MAP", extras={"keyType": STRING.to_json(), "valueType": kind.to_json()})


CASES: list[tuple[LogicalType, Any, Any, pa.DataType]] = [
    (LogicalType(root="BOOLEAN"), True, True, pa.bool_()),
    (LogicalType(root="TINYINT"), 1, 1, pa.int8()),
    (LogicalType(root="SMALLINT"), 1, 1, pa.int16()),
    (INT, -1, -1, pa.int32()),
    (BIGINT, 2**62, 2**62, pa.int64()),
    (LogicalType(root="FLOAT"), Decimal("1.5"), 1.5, pa.float32()),
    (DOUBLE, Decimal("0.1"), 0.1, pa.float64()),
    (DOUBLE, "-Infinity", -inf, pa.float64()),
    (DECIMAL, Decimal("1E+2"), Decimal("100.00"), pa.decimal128(38, 2)),
    (DECIMAL, 10**36 - 1, Decimal(f"{10**36 - 1}.00"), pa.decimal128(38, 2)),
    (STRING, "é", "é", pa.string()),
    (LogicalType(root="CHAR", extras={"length": 3}), "a  ", "a  ", pa.string()),
    (BYTES, "Cv8=", b"\x0a\xff", pa.binary()),
    (LogicalType(root="DATE"), "2024-02-29", date(2024, 2, 29), pa.date32()),
    (
        LogicalType(root="TIME_WITHOUT_TIME_ZONE", extras={"precision": 6}),
        "01:02:03.5",
        time(1, 2, 3, 500000),
        pa.time64("us"),
    ),
    (
        PLAIN,
        "2024-01-02T03:04:05.12",
        datetime(2024, 1, 2, 3, 4, 5, 120000),  # noqa: DTZ001
        pa.timestamp("us"),
    ),
    (LOCAL, "2024-07-01T14:00:00Z", datetime(2024, 7, 1, 14, tzinfo=BERLIN), pa.timestamp("us", "UTC")),
    (
        DAY_TIME,
        -93784500,
        -timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=500),
        pa.duration("us"),
    ),
    (YEAR_MONTH, 14, 14, pa.int32()),
    (LogicalType(root="VARIANT"), '{"a":1}', '{"a":1}', pa.string()),
    (
        array_of(DECIMAL),
        [Decimal("1.5"), None],
        [Decimal("1.50"), None],
        pa.list_(pa.field("element", pa.decimal128(38, 2))),
    ),
    (STRING_MAP, {"k": None}, {"k": None}, pa.map_(pa.string(), pa.string())),
    (
        map_of(array_of(LogicalType(root="DATE"))),
        {"k": ["2024-01-01"]},
        {"k": [date(2024, 1, 1)]},
        pa.map_(pa.string(), pa.list_(pa.field("element", pa.date32()))),
    ),
    (
        row_of(a=INT, b=array_of(BYTES)),
        {"a": 1, "b": ["Cv8="]},
        {"a": 1, "b": [b"\x0a\xff"]},
        pa.struct({"a": pa.int32(), "b": pa.list_(pa.field("element", pa.binary()))}),
    ),
    (LogicalType(root="NULL"), None, None, pa.null()),
]


@pytest.mark.parametrize(
    ("kind", "shown", "value", "arrow"), CASES, ids=[str(case[0].root) for case in CASES]
)
def test_json_becomes_the_python_object_and_the_arrow_value_of_its_type(
    kind: LogicalType, shown: object, value: object, arrow: pa.DataType
) -> None:
    columns = [Column(name="a", type=kind)]

    rows = list(rows_converter(columns, BERLIN)([[shown], [None]]))
    table = arrow_table(columns, rows)

    assert rows == [(value,), (None,)]
    assert [type(row[0]) for row in rows] == [type(value), type(None)]
    assert table.schema.types == [arrow]
    assert table.column(0).null_count == (2 if value is None else 1)
    read = table.column(0)[0].as_py()
    assert (dict(read) if pa.types.is_map(arrow) else read) == value


def test_nan_is_a_float() -> None:
    [[value]] = rows_converter([Column(name="a", type=DOUBLE)], None)([["NaN"]])

    assert repr(value) == repr(nan)


def test_an_arrow_table_keeps_names_nullability_and_comments_without_rows_too() -> None:
    needed = LogicalType(root="BIGINT", nullable=False)
    columns = [Column(name="a", type=needed, comment="the a"), Column(name="a", type=STRING)]

    schema = arrow_table(columns, []).schema

    assert schema == pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("a", pa.string())])
    assert schema.field(0).metadata == {b"comment": b"the a"}


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (LogicalType(root="DATE"), "+12024-01-01"),
        (PLAIN, "-0001-01-01T00:00:00"),
        (DAY_TIME, 2**62),
        (BYTES, "x"),
    ],
)
def test_a_value_python_has_no_room_for_names_its_column_and_the_way_out(
    kind: LogicalType, shown: object
) -> None:
    with pytest.raises(UnreadableValue, match=r"Column late has the value .* CAST it to STRING"):
        rows_converter([Column(name="late", type=kind)], None)([[None], [shown], [None]])


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        (LOCAL, True),
        (array_of(LOCAL), True),
        (row_of(a=map_of(LOCAL)), True),
        (row_of(a=PLAIN), False),
        (STRING, False),
    ],
)
def test_the_zone_is_needed_for_local_timestamps_at_any_depth(kind: LogicalType, needed: bool) -> None:
    zone = zone_for([Column(name="a", type=kind)], lambda: {"table.local-time-zone": "Europe/Berlin"})

    assert zone == (BERLIN if needed else None)


@pytest.mark.parametrize(
    ("properties", "zone"),
    [
        ({}, UTC),
        ({"table.local-time-zone": "Europe/Berlin"}, BERLIN),
        ({"table.local-time-zone": "Etc/UTC", "spark.sql.session.timeZone": "Europe/Berlin"}, BERLIN),
        ({"table.local-time-zone": "+05:30"}, timezone(timedelta(hours=5, minutes=30))),
        ({"table.local-time-zone": "GMT-3"}, timezone(-timedelta(hours=3))),
        ({"table.local-time-zone": "Z"}, UTC),
    ],
)
def test_the_zone_of_a_session_is_in_its_properties(properties: dict[str, str], zone: tzinfo) -> None:
    assert zone_for([Column(name="a", type=LOCAL)], lambda: properties) == zone


def test_a_zone_this_machine_does_not_know_is_refused() -> None:
    with pytest.raises(UnreadableValue, match=r"'Mars/Base' is unknown .* tzdata"):
        zone_for([Column(name="a", type=LOCAL)], lambda: {"table.local-time-zone": "Mars/Base"})
