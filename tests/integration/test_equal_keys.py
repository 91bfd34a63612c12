"""Keys of streams that SQL takes as equal though their bytes differ:
each operator takes them as one, as in a batch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.operator_stream import OperatorStream, statement

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

ZERO = "IF(n % 2 = 0, 0.0D, -0.0D)"
MAP = "IF(n % 2 = 0, map('a', 1, 'b', 2), map('b', 2, 'a', 1))"
KEYS = {
    "number": ZERO,
    "struct": f"named_struct('z', {ZERO})",
    "array": f"array({ZERO}, CAST(NULL AS DOUBLE))",
    "nested": f"array(named_struct('z', array({ZERO})))",
}
ROWS = "(SELECT n, {key} AS key FROM clicks)"
QUERIES = {
    "first": "SELECT 1 AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY key ORDER BY p) AS rn "
    f"FROM (SELECT *, now() AS p FROM {ROWS})) WHERE rn = 1",
    "top": (
        "SELECT n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY key ORDER BY n) AS rn "
        f"FROM {ROWS}) WHERE rn = 1"
    ),
    "group": f"SELECT CAST(count(*) AS INT) AS n FROM {ROWS} GROUP BY key",
    "join": (
        f"SELECT CAST(10 * l.n + r.n AS INT) AS n FROM {ROWS} AS l "
        f"JOIN {ROWS} AS r ON l.key = r.key AND l.n < r.n"
    ),
}
EXPECTED = {"first": (1,), "top": (0,), "group": (4,), "join": (1, 2, 3, 12, 13, 23)}
"""What each query gives of the rows 0 to 3, all of which have one key."""


def query(keys: dict[str, str]) -> str:
    return " UNION ALL ".join(
        f"SELECT '{name}' AS q, '{kind}' AS kind, n FROM ({text.format(key=key)})"
        for kind, key in keys.items()
        for name, text in QUERIES.items()
        # Spark joins, orders and partitions by no map.
        if kind != "map" or name == "group"
    )


@pytest.mark.slow
def test_keys_that_are_equal_in_sql_are_one_key_of_each_operator(
    module_driver: SparkDriver, tmp_path: Path
) -> None:
    keys, session = {**KEYS, "map": MAP}, module_driver.new_session()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    standing = Counter[tuple[str, str, int]]()

    with active_session(session):
        stream = OperatorStream(session, tmp_path, "n INT", statement(query(keys)))
        changes = [change for batch in ((0, 1), (2, 3)) for change in stream.feed(*({"n": n} for n in batch))]
        stream.stop()
    for kind, row in changes:
        standing[row["q"], row["kind"], row["n"]] += 1 if kind in {"+I", "+U"} else -1

    assert standing == Counter(
        (name, kind, n)
        for kind in keys
        for name in EXPECTED
        if kind != "map" or name == "group"
        for n in EXPECTED[name]
    )
