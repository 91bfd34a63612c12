"""Histories of sources in partitions: tables are kept in the way of their query,
or computed again where no change can be told.
"""

from __future__ import annotations

import pytest

from tests.depth import DEPTH, dice
from tests.integration.maintained_world import (
    FORMATS,
    KINDS,
    Maintained,
    check_ways,
    take_tables_for_large,
)
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.maintained_queries import PARTITIONED_QUERIES, QUERIES, SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 * DEPTH)]

# Of each way one: append and stages, merge, keys, partitions.
FEW = ("left join", "join and aggregate", "place in its part")
CHANGES = tuple(kind for kind in KINDS if kind != "rollback")
PARTITIONINGS = {"o": ("d", "bucket(3, cid)", "truncate(1, s)", "months(d)"), "c": ("seg", "bucket(2, cid)")}


def histories(world: RefreshWorld, seed: int, properties: str) -> Maintained:
    """Return tables over sources in partitions, chosen by *seed*."""
    chance = dice(seed)
    partitions = {source: chance.choice(given) for source, given in PARTITIONINGS.items()}
    maintained = Maintained(world, chance, properties, partitions=partitions)
    maintained.create([query for query in (*QUERIES, *PARTITIONED_QUERIES) if query.name in FEW])
    return maintained


def change(maintained: Maintained, source: str, kind: str) -> None:
    if kind == "append":
        maintained.append(source, 4)
    else:
        maintained.change(source, kind)


def followed(maintained: Maintained, source: str, kind: str, *, then_reshaped: bool = False) -> None:
    """Change a source, then its columns or not; each table is kept in the way of its query."""
    before = maintained.world.plain(f"TABLE {source}")
    change(maintained, source, kind)
    is_changed = maintained.world.plain(f"TABLE {source}") != before
    if then_reshaped:
        maintained.reshape(source)

    ways = maintained.refresh()

    if is_changed:
        queries = [query for query in maintained.tables.values() if source in query.rows]
        check_ways(
            ways, {each.name: (each.appends if kind == "append" else each.rows)[source] for each in queries}
        )
    else:
        assert set(ways.values()) <= {"nothing"}


def read_again(maintained: Maintained, source: str, kind: str) -> None:
    """Change a source, and lose what tells the change; each table is computed again, and says why."""
    change(maintained, source, kind)
    # What was appended by one commit can be read without the version before it.
    maintained.append(source, 1)
    maintained.append(source, 1)
    said = maintained.expire(source)

    ways = maintained.refresh()

    names = [query.name for query in maintained.tables.values() if source in query.rows]
    check_ways(ways, dict.fromkeys(names, "recompute"))
    assert [name for name in names if said not in maintained.reasons[name]] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FORMATS)) if DEPTH > 1 else [1])
def test_a_source_that_loses_its_old_version_is_read_again_and_one_that_gets_other_columns_is_followed(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    take_tables_for_large(monkeypatch, number == 1, files=number == 1)
    maintained = histories(world, number, FORMATS[number])
    pick = maintained.random.choice
    # A source that has lost its versions cannot be rolled back.
    followed(maintained, pick(tuple(SOURCES)), "rollback")

    for _ in range(DEPTH):
        source = pick(tuple(SOURCES))
        read_again(maintained, source, pick(CHANGES))
        for source in maintained.random.choices(tuple(SOURCES), k=2 if DEPTH == 1 else 3):
            # Before the change, so that its commit has the new columns, and after it,
            # so that nobody has committed with them.
            maintained.reshape(source)
            followed(maintained, source, pick(("append", *CHANGES)), then_reshaped=True)
