"""Each operator of a query, computed over the rows of those below it, gives the rows that the query needs.

All of them together return what plain Spark returns, and none of them takes a job.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mt_core.spark.iceberg.computed_rows import collect_or_checkpoint
from tests.depth import DEPTH, dice
from tests.integration.cut_queries import CutQuery
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_queries import rows_of, staged
from tests.integration.test_staged_queries import CHANGES, SHAPES, C, T
from tests.integration.tpc import tpc_suite, without_choice
from tests.support.maintained_queries import QUERIES, SOURCES
from tests.support.started_jobs import started_jobs
from tests.support.tpc_plans import SUITES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 * DEPTH)]

ROWS = {
    "o": """
SELECT id, nullif(id % 7, 6), CAST(id * 3.5 % 40 AS DECIMAL(10, 2)), DATE '2026-03-01' + CAST(id % 4 AS INT),
    nullif(concat('s', id % 3), 's2'),
    element_at(array(0.0D, -0.0D, double('NaN'), NULL, 1.5D), CAST(id % 5 + 1 AS INT))
FROM range(30) UNION ALL SELECT 3, 3, 10.5, DATE '2026-03-04', 's0', NULL""",
    "c": "VALUES (0, 'a', 3), (1, 'b', 2), (1, 'b', 2), (2, 'a', NULL), (NULL, 'a', 9), (9, 'd', 1)",
}
"""The rows of the sources of `maintained_queries`: NULL as a key, duplicates, and keys without a partner."""
WORLDS = {
    "maintained": (
        {name: (columns, ROWS[name]) for name, columns in SOURCES.items()},
        {query.name: query.sql for query in QUERIES},
    ),
    "staged": ({"t": (T, CHANGES["t"]["old"]), "c": (C, CHANGES["c"]["old"])}, SHAPES),
}
"""Tables with their columns and rows, and the queries over them."""


@pytest.mark.parametrize("name", WORLDS)
def test_a_query_returns_its_rows_when_each_operator_is_computed_by_itself(
    world: RefreshWorld, name: str
) -> None:
    session, (tables, queries) = world.session, WORLDS[name]
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    for table, (columns, rows) in tables.items():
        world.spark(f"CREATE TABLE {table} ({columns}) USING iceberg", f"INSERT INTO {table} {rows}")
    local = {table: collect_or_checkpoint(session.table(table)) for table in tables}
    shapes = queries if DEPTH > 1 else dict(list(queries.items())[::4])
    chance = dice(len(queries))

    for shape, text in shapes.items():
        query, sources = staged(session, text)
        leaves = {number: local[source.rpartition(".")[2]] for number, source in enumerate(sources)}
        expected = rows_of(session.sql(text))
        before = started_jobs(session)

        cut = CutQuery(session, query, leaves)
        cut.run()
        above = cut.rows_over(chance.sample(sorted(cut.rows), chance.randint(1, len(cut.rows))))

        assert [each.words for each in cut.by_jobs if not each.values] == [], shape
        assert started_jobs(session) - before == len(cut.by_jobs), shape
        assert rows_of(cut.rows[cut.root].frame) == expected, shape
        assert rows_of(above) == expected, shape


@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.parametrize("name", SUITES)
def test_queries_of_benchmarks_return_their_rows_when_each_operator_is_computed_by_itself(
    world: RefreshWorld, tmp_path: Path, name: str
) -> None:
    session, suite = world.session, tpc_suite(name, tmp_path)
    for table, file in suite.tables.items():
        world.spark(f"CREATE TABLE {table} USING iceberg AS SELECT * FROM parquet.`{file}`")
    local = {table: collect_or_checkpoint(session.table(table)) for table in suite.tables}

    for query_name, text in without_choice(name, suite.queries).items():
        query, sources = staged(session, text)
        leaves = {number: local[source.rpartition(".")[2]] for number, source in enumerate(sources)}

        cut = CutQuery(session, query, leaves)
        cut.run()

        assert rows_of(cut.rows[cut.root].frame) == rows_of(session.sql(text)), query_name
