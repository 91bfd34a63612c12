"""Tables that are maintained by stages have the rows of their queries, whatever changes in their sources."""

from __future__ import annotations

import pytest

from tests.depth import DEPTH, dice
from tests.integration.maintained_world import FORMATS, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_world import CHANGES, OTHERS, Staged
from tests.support.queries_with_stages import QUERIES_WITH_STAGES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 * DEPTH)]

# A state with keys, a state that is read twice, joins, a subquery, columns that cannot be NULL.
FEW = ("averages", "the same twice", "join of three", "share of all", "union", "not null", "not null merged")
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
