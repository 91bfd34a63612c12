"""Tables that are maintained by stages have the rows of their queries, whatever changes in their sources."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.depth import DEPTH, dice
from tests.integration.maintained_world import FORMATS, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_world import ACCESSES, CHANGES, OTHERS, SMALL_PAGES, Staged, take_access
from tests.support.maintained_queries import QUERIES
from tests.support.queries_with_stages import (
    COMPUTED_READINGS,
    JOINS,
    QUERIES_WITH_STAGES,
    QUERIES_WITHOUT_STAGES,
    ROWS_OVER_VALUES,
    VALUES,
    QueryWithStages,
    below_sums,
)
from tests.support.random_join_queries import random_join

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 * DEPTH)]

# A state that is read twice, a join, columns that cannot be NULL.
FEW = ("the same twice", "join of three", "not null", "not null except")
FEW_COMPUTED = (
    "customers by orders", "semi and anti join of itself", "full join by two", "scalars by key",
    "best of each", "union of computed",
)  # fmt: skip
FEW_JOINS = ("null is a key of three", "self join of three", "union of joins")
FEW_VALUES = ("above the average row", "a value of a value", "rows with a value", "joined rows with values")
RECORDED_SOURCES = {
    "o": {"id": "BIGINT", "cid": "BIGINT", "amt": "DECIMAL", "d": "DATE", "s": "STRING", "x": "DOUBLE"},
    "c": {"cid": "BIGINT", "seg": "STRING", "cap": "INT"},
}
"""The sources of `maintained_queries`, with their types."""
INEXACT = ("median and mode",)
"""Queries whose values depend on the order of additions, so that their hashes differ."""
PARTS = 6
"""Into how many tests the queries are divided."""


def test_changes_of_several_sources_are_applied_to_states(world: RefreshWorld) -> None:
    staged = Staged(world, dice(1), FORMATS[1])
    queries = (*QUERIES_WITH_STAGES, *QUERIES_WITHOUT_STAGES)
    staged.create([query for query in queries if query.name in FEW])

    staged.append("f", 3)
    staged.refresh()
    staged.change()
    staged.refresh()

    check_ways(staged)


def test_rows_that_changed_rows_are_joined_with_are_looked_up(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_access(monkeypatch, "files")
    staged = Staged(world, dice(2), f"{FORMATS[2]}, {SMALL_PAGES}")
    staged.create([query for query in JOINS if query.name in FEW_JOINS])

    for _ in range(2):
        staged.change()
        staged.refresh()

    check_ways(staged)


def test_states_and_rows_follow_values_of_scalar_subqueries_that_change_and_that_do_not(
    world: RefreshWorld,
) -> None:
    staged = Staged(world, dice(3), FORMATS[2])
    staged.create([query for query in (*VALUES, *ROWS_OVER_VALUES) if query.name in FEW_VALUES])

    for _ in range(2):
        staged.change()
        staged.refresh()

    check_ways(staged)


def test_changes_below_operators_that_are_not_linear_are_applied_to_the_sums_above_them(
    world: RefreshWorld,
) -> None:
    staged = Staged(world, dice(3), f"{FORMATS[1]}, {SMALL_PAGES}")
    staged.create([query for query in COMPUTED_READINGS if query.name in FEW_COMPUTED])

    for _ in range(2):
        staged.change()
        staged.refresh()

    check_ways(staged)


@pytest.mark.slow
@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("queries", "depth"), [(JOINS, 0), (COMPUTED_READINGS, 3)], ids=["joins", "computed"]
)
def test_every_query_has_its_rows_however_the_others_of_its_sources_are_looked_up(
    world: RefreshWorld,
    monkeypatch: pytest.MonkeyPatch,
    queries: Sequence[QueryWithStages],
    depth: int,
    part: int,
    access: str,
) -> None:
    take_access(monkeypatch, access)
    chance = dice(part)
    properties = f"{FORMATS[part % len(FORMATS)]}, {SMALL_PAGES}"
    staged = Staged(world, chance, properties, is_partitioned=part > 2)
    others = (random_join(chance, f"random {number}", depth) for number in range(6))
    staged.create([*queries[part::PARTS], *others])

    for _ in range(DEPTH):
        staged.change(chance.choice(((), ("append",), ("update", "delete"))))
        staged.refresh()
    check_ways(staged, access)
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
    staged.create((*QUERIES_WITH_STAGES, *VALUES, *ROWS_OVER_VALUES, *QUERIES_WITHOUT_STAGES)[part::PARTS])

    for _ in range(DEPTH):
        staged.change()
        staged.refresh()
    check_ways(staged)
    for _ in range(DEPTH):
        staged.change((*CHANGES, *OTHERS))
        staged.refresh()


@pytest.mark.slow
@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.parametrize("part", range(PARTS))
def test_sums_above_queries_of_every_shape_have_their_rows(world: RefreshWorld, part: int) -> None:
    staged = Staged(world, dice(part), FORMATS[part % len(FORMATS)], sources=RECORDED_SOURCES)
    shapes = [query for query in QUERIES if query.name not in INEXACT]
    staged.create(
        [
            QueryWithStages(name=query.name, sql=below_sums(query.sql), sources=tuple(query.rows))
            for query in shapes[part::PARTS]
        ]
    )

    for _ in range(DEPTH):
        staged.change()
        staged.refresh()
    check_ways(staged)


def check_ways(staged: Staged, access: str = "memory") -> None:
    """Assert that all changes so far were applied to states, as far as the compiler has stages.

    Operators without a key need whole sources, which are too large in other accesses than memory.
    """
    too_large = "recomputed: too many rows" if access != "memory" else "-"
    assert {name: reason for name, reason in staged.others.items() if too_large not in reason} == {}
