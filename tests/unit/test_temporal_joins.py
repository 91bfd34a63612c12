from __future__ import annotations

import pytest

from mt_core.errors import Unsupported
from mt_core.sql.temporal_joins import check_temporal_joins

JOIN = "SELECT c.city FROM orders AS o JOIN {} AS c ON o.id = c.id"


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("cities", "o.p"),
        ("lake.shop.cities", "p"),
        ("lake.`my shop`.cities", "o.`p q`"),
    ],
)
def test_a_temporal_join_is_refused_by_name_with_the_way_out(table: str, column: str) -> None:
    with pytest.raises(Unsupported) as refused:
        check_temporal_joins(JOIN.format(f"{table} for system_time /* of */ AS OF {column}"))

    assert refused.value.message == (
        f"{table} FOR SYSTEM_TIME AS OF {column}: Spark has no temporal join, which reads the "
        "version of a table at the time of each row. Join the current table of each batch: "
        f"{table} /*+ OPTIONS('streaming' = 'false') */ in place of FOR SYSTEM_TIME AS OF."
    )


@pytest.mark.parametrize(
    "time",
    [
        "TIMESTAMP '2026-01-01'",
        "'2026-01-01'",
        "current_timestamp",
        "date_sub(now(), 1)",
        "CAST('2026-01-01' AS TIMESTAMP)",
    ],
)
def test_a_table_at_a_time_that_is_no_column_passes(time: str) -> None:
    check_temporal_joins(JOIN.format(f"cities FOR SYSTEM_TIME AS OF {time}"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'FOR SYSTEM_TIME AS OF o.p'",
        "SELECT system_time FROM t",
        "SELECT 1 -- FOR SYSTEM_TIME AS OF o.p",
    ],
)
def test_the_words_of_a_temporal_join_elsewhere_pass(text: str) -> None:
    check_temporal_joins(text)
