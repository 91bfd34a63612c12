"""A refresh that applies appended rows gives what the query gives, in the way that the shape of the query allows."""

from __future__ import annotations

import random

import pytest

from tests.depth import DEPTH
from tests.integration.maintained_world import PARTS, Maintained, check_ways, picked, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.maintained_queries import QUERIES, SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SMALL = ("self join", "union all", "join and aggregate", "average", "limit")


def check_appends(maintained: Maintained, rounds: int, *alone: str) -> None:
    """Append rows to each of the sources *alone*, then to all of them."""
    for _ in range(rounds):
        for source in alone:
            maintained.append(source, 4)

            ways = maintained.refresh()

            expected = {
                query.name: query.appends[source] for query in maintained.tables.values() if source in query.appends
            }
            check_ways(ways, expected)
        for source in SOURCES:
            maintained.append(source, 3)
        maintained.refresh()


def test_appended_rows_are_applied_in_the_way_that_the_query_allows(world: RefreshWorld) -> None:
    maintained = Maintained(world, random.Random(1))
    maintained.create([query for query in QUERIES if query.name in SMALL])

    check_appends(maintained, 1, *SOURCES)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_query_is_kept_in_its_way_while_rows_are_appended(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    take_tables_for_large(monkeypatch, part % 2 == 1)
    maintained = Maintained(world, random.Random(part))
    maintained.create(picked(part, 0))

    # The ways of all queries for each source are in tests/unit/maintenance/test_strategies.py.
    check_appends(maintained, DEPTH, *(SOURCES if DEPTH > 1 else [tuple(SOURCES)[part // 2]]))
