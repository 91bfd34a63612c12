from __future__ import annotations

import pytest

from mt_core.sql.flink.spark_types import in_flink


@pytest.mark.parametrize(
    ("spark", "flink"),
    [
        ("string", "STRING"),
        ("string collate UTF8_LCASE", "STRING"),
        ("bigint", "BIGINT"),
        ("decimal(10,2)", "DECIMAL(10, 2)"),
        ("char(5)", "CHAR(5)"),
        ("binary", "BYTES"),
        ("timestamp", "TIMESTAMP_LTZ(6)"),
        ("timestamp_ntz", "TIMESTAMP(6)"),
        ("time(3)", "TIME(3)"),
        ("interval day to second", "INTERVAL DAY TO SECOND(6)"),
        ("interval year", "INTERVAL YEAR"),
        ("variant", "VARIANT"),
        ("void", "NULL"),
        (
            "map<string,array<struct<`a b`:int,at:timestamp>>>",
            "MAP<STRING NOT NULL, ARRAY<ROW<`a b` INT, `at` TIMESTAMP_LTZ(6)>>>",
        ),
    ],
)
def test_a_type_of_spark_is_shown_as_flink_names_it(spark: str, flink: str) -> None:
    assert in_flink(spark) == flink


@pytest.mark.parametrize("unknown", ["struct<>", "map<int>", "array<int", "decimal(", "a b", "", "'"])
def test_what_is_no_type_is_shown_as_it_is(unknown: str) -> None:
    assert in_flink(unknown) == unknown
