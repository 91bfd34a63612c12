"""Tables that are maintained by stages have the rows of their queries, whatever changes in their sources."""

from __future__ import annotations

import pytest

from tests.depth import DEPTH, dice
from tests.integration.maintained_world import FORMATS, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_world import ACCESSES, CHANGES, OTHERS, SMALL_PAGES, Staged, take_access
from tests.support.queries_with_stages import JOINS, QUERIES_WITH_STAGES
from tests.support.random_join_queries import random_join

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 * DEPTH)]

# A state with keys, a state that is read twice, joins, a subquery, columns that cannot be NULL.
FEW = ("averages", "the same twice", "join of three", "share of all", "union", "not null", "not null merged")
FEW_JOINS = ("cycle", "null is a key of three", "self join of three", "union of joins")
PARTS = 6
"""Into how many tests the queries are divided."""


def test_changes_of_several_sources_are_applied_to_states(world: RefreshWorld) -> None:
    staged = Staged(world, dice(1), FORMATS[1])
    staged.create([query for query in QUERIES_WITH_STAGES if query.name in FEW])

    staged.append("f", 3)
    staged.refresh()
    staged.change()
    staged.refresh()

    check_ways(staged)


@pytest.mark.parametrize("access", ["memory", "files"])
def test_rows_that_changed_rows_are_joined_with_are_looked_up(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, access: str
) -> None:
    take_access(monkeypatch, access)
    staged = Staged(world, dice(2), f"{FORMATS[2]}, {SMALL_PAGES}")
    staged.create([query for query in JOINS if query.name in FEW_JOINS])

    for _ in range(2):
        staged.change()
        staged.refresh()

    check_ways(staged)


@pytest.mark.slow
@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_join_has_its_rows_however_they_are_looked_up(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, part: int, access: str
) -> None:
    take_access(monkeypatch, access)
    chance = dice(part)
    properties = f"{FORMATS[part % len(FORMATS)]}, {SMALL_PAGES}"
    staged = Staged(world, chance, properties, is_partitioned=part > 2)
    joins = [*JOINS[part::PARTS], *(random_join(chance, f"random {number}") for number in range(6))]
    staged.create(joins)

    for _ in range(DEPTH):
        staged.change(chance.choice(((), ("append",), ("update", "delete"))))
        staged.refresh()
    check_ways(staged)
    for _ in range(DEPTH):
        staged.change((*CHANGES, *OTHERS))
        staged.refresh()


@pytest.mark.slow
@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_query_has_its_rows_after_any_change_of_its_sources(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    take_tables_for_large(monkeypatch, part % 2 == 1, files=part in (1, 2))
    staged = Staged(world, dice(part), FORMATS[part % len(FORMATS)], is_partitioned=part > 2)
    staged.create(QUERIES_WITH_STAGES[part::PARTS])

    for _ in range(DEPTH):
        staged.change()
        staged.refresh()
    check_ways(staged)
    for _ in range(DEPTH):
        staged.change((*CHANGES, *OTHERS))
        staged.refresh()


def check_ways(staged: Staged) -> None:
    """Assert that stages applied all changes so far."""
    by_stages = {query.name for query in staged.tables.values() if query.by_stages}
    others = {
        f"{name}: {way}": reason
        for name, ways in staged.ways.items()
        for way, reason in ways.items()
        if way not in ("stages", "nothing") and name in by_stages
    }
    assert others == {}
