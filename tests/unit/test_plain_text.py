from __future__ import annotations

from typing import Any

import pytest

from mt_core.base.plain_text import plain, plain_rows
from mt_core.base.rowset import INT, STRING, STRING_MAP, Column

INTEGER = {"type": "INTEGER", "nullable": True}
TEXT = {"type": "VARCHAR", "nullable": True, "length": 10}


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (True, {"type": "BOOLEAN"}, "TRUE"),
        (False, {"type": "BOOLEAN"}, "FALSE"),
        (3, INTEGER, "3"),
        (1.0, {"type": "DOUBLE"}, "1.0"),
        (0.0, {"type": "DOUBLE"}, "0.0"),
        (1e20, {"type": "DOUBLE"}, "1.0E20"),
        (-1.25e-7, {"type": "DOUBLE"}, "-1.25E-7"),
        (12345678.9, {"type": "DOUBLE"}, "1.23456789E7"),
        (0.10000000149011612, {"type": "FLOAT"}, "0.1"),
        (float("nan"), {"type": "DOUBLE"}, "NaN"),
        (float("-inf"), {"type": "DOUBLE"}, "-Infinity"),
        ("NaN", {"type": "DOUBLE"}, "NaN"),
        (100, {"type": "DECIMAL", "precision": 10, "scale": 2}, "100.00"),
        ("123.45", {"type": "DECIMAL", "precision": 10, "scale": 4}, "123.4500"),
        ("Cv8=", {"type": "VARBINARY", "length": 2}, "x'0aff'"),
        ("2024-02-29", {"type": "DATE"}, "2024-02-29"),
        (
            "2024-01-02T03:04:05.12",
            {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3},
            "2024-01-02 03:04:05.120",
        ),
        (
            "2024-01-02T03:04:05",
            {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 0},
            "2024-01-02 03:04:05",
        ),
        (
            "2024-01-02T03:04:05Z",
            {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 3},
            "2024-01-02 03:04:05.000",
        ),
        (93784500, {"type": "INTERVAL_DAY_TIME"}, "+1 02:03:04.500"),
        (-14, {"type": "INTERVAL_YEAR_MONTH"}, "-1-02"),
        ([1, 2, None], {"type": "ARRAY", "elementType": INTEGER}, "[1, 2, NULL]"),
        ({"k": 1}, {"type": "MAP", "keyType": TEXT, "valueType": INTEGER}, "{k=1}"),
        ({"v": 2}, {"type": "MULTISET", "elementType": TEXT}, "{v=2}"),
        (
            {"a": 1, "b": "x", "c": None},
            {
                "type": "ROW",
                "fields": [
                    {"name": "a", "fieldType": INTEGER},
                    {"name": "b", "fieldType": TEXT},
                    {"name": "c", "fieldType": TEXT},
                ],
            },
            "(1, x, NULL)",
        ),
        (None, INTEGER, None),
    ],
)
def test_a_value_is_printed_as_flink_prints_it(value: Any, type_: dict[str, Any], text: str | None) -> None:
    assert plain(value, type_) == text


def test_rows_are_printed_by_their_columns() -> None:
    columns = (Column(name="a", type=INT), Column(name="b", type=STRING), Column(name="c", type=STRING_MAP))

    rows = plain_rows(columns, [[1, "x", {"k": "v"}], [None, None, None]])

    assert rows == [["1", "x", "{k=v}"], [None, None, None]]
