"""A refresh that applies appended rows gives what the query gives, in the way that the shape
of the query allows.
"""

from __future__ import annotations

import random

import pytest

from mt_core.model.run import RunStatus
from tests.depth import DEPTH, dice
from tests.integration.maintained_world import (
    INCREMENTAL,
    PARTS,
    Maintained,
    check_ways,
    picked,
    take_tables_for_large,
)
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.maintained_queries import QUERIES, SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SMALL = ("self join", "join and aggregate", "limit")


def check_appends(maintained: Maintained, rounds: int, *alone: str) -> None:
    """Append rows to each of the sources *alone*, then to all of them."""
    for _ in range(rounds):
        for source in alone:
            maintained.append(source, 4)

            ways = maintained.refresh()

            expected = {
                query.name: query.appends[source]
                for query in maintained.tables.values()
                if source in query.appends
            }
            check_ways(ways, expected)
        for source in SOURCES:
            maintained.append(source, 3)
        maintained.refresh()


def test_appended_rows_are_applied_in_the_way_that_the_query_allows(world: RefreshWorld) -> None:
    maintained = Maintained(world, random.Random(1))
    maintained.create([query for query in QUERIES if query.name in SMALL])

    check_appends(maintained, 1, *SOURCES)


def is_by_job(world: RefreshWorld, name: str) -> bool:
    """Return whether a job of Spark's has written the newest version of a table:
    it says of which application it was.
    """
    log = (
        f"SELECT summary['spark.app.id'] FROM {world.namespace}.{name}.snapshots "
        "ORDER BY committed_at DESC LIMIT 1"
    )
    return world.plain(log) != [(None,)]


@pytest.mark.slow
def test_few_appended_rows_are_computed_and_written_without_a_job(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (id INT, s STRING, d DECIMAL(9, 2), at TIMESTAMP) USING iceberg",
        "INSERT INTO o VALUES (1, 'a', 1.25, TIMESTAMP '2026-03-01 12:00:00')",
        "CREATE VIEW v AS SELECT * FROM o WHERE id % 2 = 1",
    )
    queries = {
        "projected": (
            "SELECT id * 2 AS twice, upper(s) AS s, d + 1 AS d, date(at) AS day FROM v "
            "WHERE s IS NULL OR s <> 'z'"
        ),
        "exploded": "SELECT id, each FROM o LATERAL VIEW explode(array(id, d)) e AS each",
    }
    for name, query in queries.items():
        world.create(name, query, clauses=INCREMENTAL)
    appended = (
        "SELECT 2 * id + 1, nullif(CAST(id AS STRING), '3'), id / 4, TIMESTAMP '2026-03-01 23:30:00' "
        "FROM range({})"
    )
    steps = [
        [f"INSERT INTO o {appended.format(100)}"],
        [
            "INSERT INTO o VALUES (3, 'z', NULL, NULL), (5, 'y', NULL, NULL)",
            "INSERT INTO o VALUES (7, NULL, 0, NULL)",
        ],
        [
            "CREATE OR REPLACE VIEW v AS SELECT * FROM o WHERE id % 3 = 1",
            f"INSERT INTO o {appended.format(10)}",
        ],
        ["INSERT INTO o VALUES (9, 'z', NULL, NULL)"],
        [f"INSERT INTO o {appended.format(50)}"],
        [f"INSERT INTO o {appended.format(100_001)}"],
    ]

    by_job = []
    for statements in steps:
        world.spark(*statements)
        for name, query in queries.items():
            assert world.tick(name).status is RunStatus.SUCCEEDED
            assert world.rows(name) == world.plain(query)
        by_job.append({name: is_by_job(world, name) for name in queries})

    here, by_jobs = dict.fromkeys(queries, False), dict.fromkeys(queries, True)
    # A view that was replaced lets the table above it be recomputed.
    assert by_job == [here, here, {**here, "projected": True}, here, here, by_jobs]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_query_is_kept_in_its_way_while_rows_are_appended(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    take_tables_for_large(monkeypatch, part % 2 == 1, files=part in (2, 3))
    maintained = Maintained(world, dice(part))
    maintained.create(picked(part, 6))

    # The ways of all queries for each source are in tests/unit/incremental/test_strategies.py.
    check_appends(maintained, DEPTH, *(SOURCES if DEPTH > 1 else [tuple(SOURCES)[part // 2]]))
