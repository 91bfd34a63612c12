"""Values of every type, and NULL in their places, in each operator on a real Spark:
a stream gives what a batch does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import MtError
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.integration.operator_stream import Change, OperatorStream, statement

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COLUMNS = "city STRING, n INT"
VALUES = {
    "city": "city",
    "st": "named_struct('x', n % 3, 'y', array(city, NULL), 'd', IF(n % 2 = 0, 0.0D, -0.0D))",
    "arr": "array(n % 3, NULL, n)",
    "mp": "IF(n % 2 = 0, map('c', city, 'x', 'y'), map('x', 'y', 'c', city))",
    "nested": "map(n, array(named_struct('m', map('c', city))))",
    "var": "parse_json('{\"a\": ' || n || ', \"b\": [true, null]}')",
    "big": "CAST(repeat('9', 37) || (n % 3) AS DECIMAL(38, 0))",
    "small": "CAST('0.' || repeat('1', 37) || (n % 3) AS DECIMAL(38, 38))",
    "ts": "timestamp_micros(n * 1000001 - 10)",
    "wall": "CAST(timestamp_micros(n % 3 - 1) AS TIMESTAMP_NTZ)",
    "day": "date_add(DATE '1500-02-27', n)",
    "raw": "CAST(city || n AS BINARY)",
    "dbl": "CASE n % 4 WHEN 0 THEN double('NaN') WHEN 1 THEN 0.0D WHEN 2 THEN -0.0D ELSE n / 3 END",
    "flt": (
        "CAST(CASE n % 4 WHEN 0 THEN double('NaN') WHEN 1 THEN 0.0D WHEN 2 THEN -0.0D ELSE 1.5D END AS FLOAT)"
    ),
    "dur": "make_dt_interval(n, 1)",
    "months": "make_ym_interval(n % 3)",
    "said": "upper(city) COLLATE UTF8_LCASE",
    "is_odd": "n % 2 = 1",
}
"""Columns by their names; each is NULL in some rows."""
KEYS = (
    "city",
    "st",
    "arr",
    "mp",
    "big",
    "small",
    "ts",
    "wall",
    "day",
    "raw",
    "dbl",
    "flt",
    "dur",
    "months",
    "is_odd",
)
"""Of whose types keys may be."""
TYPED = ", ".join(
    f"IF(n % 7 = {place % 7}, NULL, {value}) AS {name}" for place, (name, value) in enumerate(VALUES.items())
)
ALL = ", ".join(VALUES)
ROWS = f"(SELECT n, {TYPED} FROM clicks)"
LARGEST = ", ".join(f"max_by({name}, n) AS {name}" for name in VALUES)
LAST = f"(SELECT city AS c, max(n) AS n, {LARGEST} FROM {ROWS} GROUP BY city)"
TOP = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY n DESC) AS rn FROM {ROWS}"
FIRST = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY is_odd ORDER BY n) AS rn FROM {LAST}"
GREATEST = ", ".join(f"max({name}) AS {name}" for name in KEYS if name != "mp")
COUNTED = ", ".join(f"max_by({name}, n) AS {name}, count({name}) AS n_{name}" for name in VALUES)
QUERIES = {
    "top": f"SELECT rn, n, {ALL} FROM ({TOP}) WHERE rn <= 3",
    "top of changes": f"SELECT rn, {ALL} FROM ({FIRST}) WHERE rn <= 2",
    "join": f"SELECT a.n, b.n AS other, {', '.join(f'b.{name}' for name in VALUES)} FROM {ROWS} AS a "
    f"LEFT JOIN {ROWS} AS b ON a.dbl = b.dbl AND a.big <=> b.big AND a.st.d = b.st.d",
    "join of structs": (
        f"SELECT a.st, a.n, b.n AS other FROM {ROWS} AS a JOIN {ROWS} AS b ON a.st = b.st AND a.n < b.n"
    ),
    "join of changes": f"SELECT a.n, {', '.join(f'a.{name}' for name in VALUES)}, b.total FROM {ROWS} AS a "
    "FULL JOIN (SELECT city, count(*) AS total FROM clicks GROUP BY city) AS b ON a.city = b.city",
    "values": f"SELECT city, {COUNTED} FROM {ROWS} GROUP BY city",
    # A batch counts two maps of the same entries in another order, which it groups as one.
    "distinct values": (
        f"SELECT city, {', '.join(f'count(DISTINCT {name}) AS {name}' for name in KEYS if name != 'mp')} "
        f"FROM {ROWS} GROUP BY city"
    ),
    "values of changes": f"SELECT count(*) AS n, {GREATEST}, sum(big % 7) AS s, "
    f"max_by(var, n) AS var, max_by(mp, n) AS mp FROM {LAST}",
    # Spark has no DISTINCT of maps.
    "distinct": f"SELECT DISTINCT {', '.join(name for name in KEYS if name != 'mp')} FROM {ROWS}",
    "groups of maps": f"SELECT mp, count(*) AS n FROM {ROWS} GROUP BY mp",
}
if DEPTH > 1:
    QUERIES |= {
        "top of each struct": f"SELECT st, n FROM ({TOP.replace('BY city', 'BY st')}) WHERE rn <= 2",
        "limit of changes": f"SELECT {ALL} FROM {LAST} ORDER BY n DESC LIMIT 3",
    }


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> Iterator[SparkSession]:
    session = module_driver.new_session()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    with active_session(session):
        yield session


def packed(queries: Mapping[str, str]) -> str:
    row = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return " UNION ALL ".join(
        f"SELECT '{name}' AS q, {row} AS r FROM ({text})" for name, text in queries.items()
    )


def standing(changes: Iterable[Change]) -> Counter[tuple[str, str]]:
    """Return the rows of each query that stand after *changes*."""
    rows = Counter[tuple[str, str]]()
    for kind, row in changes:
        rows[row["q"], row["r"]] += 1 if kind in {"+I", "+U"} else -1
    assert min(rows.values()) >= 0, -rows
    return +rows


@pytest.mark.slow
def test_values_of_every_type_go_through_each_operator_as_in_a_batch(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = [{"city": ("Rome", "Oslo", None)[n % 3], "n": n} for n in range(30)]
    stream = OperatorStream(session, tmp_path, COLUMNS, statement(packed(QUERIES)))

    changes = list(stream.feed(*rows[:15]))
    stream.restart()
    changes += stream.feed(*rows[15:])
    stream.stop()

    session.createDataFrame([(row["city"], row["n"]) for row in rows], COLUMNS).createOrReplaceTempView(
        "clicks"
    )
    expected = Counter((row.q, row.r) for row in session.sql(packed(QUERIES)).collect())
    assert {name for name, _ in expected} == QUERIES.keys()
    assert standing(changes) == expected


def clicks(session: SparkSession) -> DataFrame:
    stream = session.readStream.format("rate").load()
    return stream.selectExpr("CAST(value AS STRING) AS city", "CAST(value AS INT) AS n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SELECT count(*) FROM {ROWS} GROUP BY var", "VARIANT"),
        (f"SELECT count(DISTINCT var) FROM {ROWS}", "VARIANT"),
        (f"SELECT DISTINCT var FROM {ROWS}", "VARIANT"),
        (f"SELECT a.n FROM {ROWS} AS a JOIN {ROWS} AS b ON a.mp = b.mp", "MAP"),
        (f"SELECT count(*) FROM {ROWS} GROUP BY said", "COLLATION"),
        (f"SELECT count(*) FROM {ROWS} GROUP BY named_struct('s', said)", "COLLATION"),
        (
            (
                "SELECT n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY var ORDER BY n) AS rn "
                f"FROM {ROWS}) WHERE rn = 1"
            ),
            "VARIANT",
        ),
        (f"SELECT n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY mp) AS rn FROM {ROWS}) WHERE rn = 1", "MAP"),
    ],
)
def test_a_type_that_cannot_be_a_key_is_refused_by_name(
    session: SparkSession, text: str, reason: str
) -> None:
    # Spark's own refusals too have the name of the type.
    with pytest.raises((MtError, AnalysisException), match=reason):
        statement(text)(clicks(session))
