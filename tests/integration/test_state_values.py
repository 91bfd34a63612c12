"""States of values at the edge of their types: what a refresh gives or refuses is what the query does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.errors import PySparkException

from mt_core.model.run import RunStatus
from tests.depth import DEPTH
from tests.integration.maintained_world import INCREMENTAL
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_world import check_states, counted

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

OVERFLOW = "NUMERIC_VALUE_OUT_OF_RANGE"
"""The error of a change whose own sums have no place in DECIMAL(38). All rows are then computed."""

LONG, WIDE = "9223372036854775807", f"{'9' * 36}.99"
COLUMNS = {
    "k": "INT",
    "b": "BIGINT",
    "w": "DECIMAL(38, 2)",
    "n": "INT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "st": "STRUCT<x: DOUBLE, y: ARRAY<FLOAT>>",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP_NTZ",
    "day": "DATE",
    "bin": "BINARY",
    "yes": "BOOLEAN",
    "s": "STRING",
}
QUERIES = {
    "long": "SELECT k, sum(b) AS s, avg(b) AS m, count(*) AS n FROM v GROUP BY k",
    "wide": "SELECT sum(w) AS s, avg(w) AS m, count(w) AS n FROM v",
    "above": "SELECT k, s FROM (SELECT k, sum(w) AS s FROM v GROUP BY k) WHERE s > (SELECT avg(n) FROM v)",
    "floats": "SELECT d, f, avg(n) AS m, count(*) AS c FROM v GROUP BY d, f",
    "structs": "SELECT st, avg(n) AS m, count(*) AS c FROM v GROUP BY st",
    "times": "SELECT t, z, day, avg(n) AS m FROM v GROUP BY t, z, day",
    "others": "SELECT bin, yes, s, CAST(k AS TINYINT) AS tiny, CAST(k AS SMALLINT) AS small, "
    "CAST(n AS DECIMAL(5, 1)) AS dec, avg(n) AS m FROM v GROUP BY ALL",
    "arrays": "SELECT array(k, n) AS ks, avg(b) AS m FROM v GROUP BY array(k, n)",
}
ZERO, MINUS_ZERO, NAN = (f"CAST('{text}' AS DOUBLE)" for text in ("0.0", "-0.0", "NaN"))
STEPS = (
    # An overflow, and its return.
    f"INSERT INTO v (k, b, n) VALUES (1, {LONG}, 1)",
    "INSERT INTO v (k, b, n) VALUES (1, 1, 2)",
    "DELETE FROM v WHERE b = 1",
    f"INSERT INTO v (k, w, n) VALUES (1, {WIDE}, 3), (2, -{WIDE}, 3), (2, {WIDE}, 3)",
    f"INSERT INTO v (k, w) VALUES (1, {WIDE})",
    "UPDATE v SET w = 1.5 WHERE k = 1",
    "UPDATE v SET b = -b WHERE b > 0",
    # Keys that are equal and not the same.
    f"INSERT INTO v (d, f, n) VALUES ({ZERO}, {MINUS_ZERO}, 1), ({MINUS_ZERO}, {ZERO}, 2), "
    f"({NAN}, {NAN}, 3), ({NAN}, NULL, 4), (NULL, NULL, 5)",
    f"INSERT INTO v (st, n) VALUES (named_struct('x', {ZERO}, 'y', array(CAST({MINUS_ZERO} AS FLOAT))), 1), "
    f"(named_struct('x', {MINUS_ZERO}, 'y', array(CAST({ZERO} AS FLOAT))), 2), "
    f"(named_struct('x', {NAN}, 'y', NULL), 3)",
    "DELETE FROM v WHERE n = 2",
    f"UPDATE v SET d = {MINUS_ZERO}, n = n + 1 WHERE d = 0",
    "INSERT INTO v (t, z, day, bin, yes, s, k, n) VALUES (TIMESTAMP'1969-12-31 23:59:59.999999', "
    "TIMESTAMP_NTZ'2026-03-29 02:30:00', DATE'0001-01-01', X'00', true, '', 127, 9999), "
    "(TIMESTAMP'9999-12-31 23:59:59.999999', NULL, DATE'9999-12-31', X'', false, 'ß', -128, -1)",
    "UPDATE v SET n = NULL WHERE yes",
    # Groups and a table without rows.
    "UPDATE v SET b = NULL, w = NULL",
    "DELETE FROM v",
    f"INSERT INTO v (k, b, w, n) VALUES (NULL, {LONG}, {WIDE}, NULL), (3, -1, -0.01, 0)",
)


@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it; test_staged_queries.py has an overflow")
@pytest.mark.parametrize("is_tiny", [False, True])
def test_values_at_the_edge_of_their_types_are_summed_up_or_refused_as_the_query_does(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, is_tiny: bool
) -> None:
    if not is_tiny:
        monkeypatch.setattr("mt_core.spark.states.tiny_states.MOST_TINY", 0)
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    world.spark(
        f"CREATE TABLE v ({columns}) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        "INSERT INTO v (k, n) VALUES (0, 0)",
    )
    for name, query in QUERIES.items():
        assert world.create(name, query, clauses=INCREMENTAL).status is RunStatus.SUCCEEDED
    ways: dict[str, str] = {}

    for step in STEPS:
        world.spark(step)
        ways |= refreshed(world, step)

    others = {name: way for name, way in ways.items() if way not in ("stages", "nothing")}
    assert {name: way for name, way in others.items() if OVERFLOW not in way} == {}
    assert len(others) <= 2


def refreshed(world: RefreshWorld, step: str) -> Mapping[str, str]:
    """Refresh all tables and check them; return what applied the change otherwise than stages, and why."""
    point, ways = world.next_point(), {}
    for name, query in QUERIES.items():
        before, run = counted(world.plain(f"TABLE {name}")), world.tick(name, point)
        rows = counted(world.plain(f"TABLE {name}"))
        try:
            expected = counted(world.plain(query))
        except PySparkException:
            assert (run.status, rows) == (RunStatus.FAILED, before), (name, step)
            continue
        assert (run.status, rows) == (RunStatus.SUCCEEDED, expected), (name, step, run.error, run.reason)
        check_states(world, name)
        ways[f"{name}: {step}"] = str(run.strategy)
        if run.strategy not in ("stages", "nothing"):
            ways[f"{name}: {step}"] = f"{run.strategy}: {run.reason}"
    return ways
