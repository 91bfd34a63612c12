"""Tables whose rows are maintained by the change of a block, without states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from mt_core.spark.iceberg import computed_rows, inline_plans, look_ups
from mt_core.spark.incremental import block_changes
from mt_core.spark.readings import keyed_readings, reading_changes, row_images
from mt_core.spark.readings.reading_changes import LocalRelations
from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import (
    FORMATS,
    KINDS,
    PARTS,
    Maintained,
    take_tables_for_large,
)
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.maintained_queries import QUERIES, MaintainedQuery
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

MOVED = ("not in", "window over a full join", "left join by range", "in or in", "two windows of two keys")
OTHERS = {
    "distinct values of an anti join": (
        "SELECT c.seg, count(DISTINCT o.s) n, max(o.amt) m FROM o JOIN c ON c.cid = o.cid "
        "WHERE o.id NOT IN (SELECT cap FROM c WHERE cap IS NOT NULL) GROUP BY c.seg"
    ),
    "largest of others": (
        "SELECT c.cid, g.m FROM c JOIN (SELECT cid, max(amt) m FROM o GROUP BY cid) g ON g.cid = c.cid "
        "WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.cid = c.cap)"
    ),
    "median of a full join": (
        "SELECT coalesce(o.cid, c.cid) k, percentile(o.id, 0.5) p, min(c.seg) s "
        "FROM o FULL JOIN c ON o.cid <=> c.cid GROUP BY o.cid, c.cid"
    ),
    "rank of distinct rows": (
        "SELECT cid, s, rank() OVER (PARTITION BY s ORDER BY n, cid) r FROM "
        "(SELECT cid, s, count(DISTINCT d) n FROM o GROUP BY cid, s) "
        "UNION ALL SELECT cid, seg, count(*) OVER (PARTITION BY seg, cap) FROM c"
    ),
}

LINEAR = ("duplicates", "self join", "union all", "left join")
"""Queries in which each changed row of `o` changes the result alone."""
PAIRS = MaintainedQuery(
    name="pairs", sql="SELECT o.s, c.seg FROM o, c WHERE o.id % 5 < c.cap", appends={}, rows={"o": "stages"}
)
"""One of them whose readings no equal columns connect."""
LOCAL = (computed_rows, inline_plans, look_ups, reading_changes, row_images, keyed_readings)
"""The modules that limit how many rows the driver holds."""
NONE_FOUND = (LocalRelations, "whole", lambda *given: None), (LocalRelations, "matching", lambda *given: None)
JOBS: dict[str, Sequence[tuple[object, str, object]]] = {
    "changed rows are not read": [(LocalRelations, "change", lambda *given: None)],
    "too many rows match": NONE_FOUND,
    "many pairs are compared": [(block_changes, "MOST_COMPARED", 0)],
    "the driver holds few rows": [(module, "MOST_LOCAL", 3) for module in LOCAL],
}


@pytest.mark.parametrize(
    "in_place",
    [pytest.param(True, id="in place"), pytest.param(False, id="rewritten", marks=pytest.mark.slow)],
)
def test_a_table_has_the_rows_of_its_query_after_changes_of_several_sources(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    take_tables_for_large(monkeypatch, in_place, files=False)
    random = dice(7)
    maintained = Maintained(world, random, FORMATS[1 + in_place])
    queries = [each for each in QUERIES if each.name in MOVED]
    queries += [
        MaintainedQuery(name=name, sql=sql, appends={}, rows={"o": "stages"}) for name, sql in OTHERS.items()
    ]
    maintained.create(queries if DEPTH > 1 else queries[in_place::3])

    ways = Counter[str]()
    for kinds in [("update", "merge"), *(random.sample(KINDS, 2) for _ in range(rounds(0, 4)))]:
        for source, kind in zip(("o", "c"), kinds, strict=True):
            maintained.change(source, kind)
        ways.update(maintained.refresh().values())
    maintained.append("o", 4)
    maintained.append("c", 2)
    ways.update(maintained.refresh().values())

    assert ways["stages"] > ways.total() / 2, ways
    assert ways["recompute"] < ways.total() / 4, ways


@pytest.mark.parametrize(
    "in_place",
    [pytest.param(True, id="in place"), pytest.param(False, id="rewritten", marks=pytest.mark.slow)],
)
def test_jobs_compute_the_rows_of_large_changes(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    take_tables_for_large(monkeypatch, in_place, files=False)
    maintained = Maintained(world, dice(5), FORMATS[1 + in_place])
    queries = [PAIRS, *(each for each in QUERIES if each.name in LINEAR)]
    maintained.create(queries)
    ways = Counter[str]()

    for limits in JOBS.values():
        with monkeypatch.context() as patched:
            for owner, name, value in limits:
                patched.setattr(owner, name, value)
            maintained.change("o", "update")
            maintained.append("o", 4)
            ways.update(maintained.refresh().values())
    maintained.append("o", 4)
    ways.update(maintained.refresh().values())

    assert ways == {"stages": len(JOBS) * len(queries), "append": len(queries)}


@pytest.mark.slow
@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("changed", [("o",), ("c",), ("o", "c")], ids=" ".join)
def test_linear_changes_of_every_query_are_applied_by_jobs_and_inline(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, changed: Sequence[str], part: int
) -> None:
    random = dice(part)
    take_tables_for_large(monkeypatch, part % 2 == 1, files=part == 2)
    maintained = Maintained(world, random, FORMATS[part % len(FORMATS)])
    linear = [
        query
        for query in QUERIES
        if {query.appends.get(source, "append") for source in changed} == {"append"}
        and not query.appends.keys().isdisjoint(changed)
    ]
    maintained.create(linear[part::PARTS])

    ways = dict[str, str]()
    for limits in random.choices([*JOBS.values(), ()], k=2 * DEPTH):
        with monkeypatch.context() as patched:
            for owner, name, value in limits:
                patched.setattr(owner, name, value)
            for source in changed:
                maintained.append(source, 2)
                maintained.change(source, random.choice(KINDS))
            ways |= maintained.refresh()

    assert {*ways.values()} <= {"append", "stages", "nothing"}, ways


def test_a_small_change_of_the_rows_of_a_join_starts_no_job(world: RefreshWorld) -> None:
    queries = [PAIRS, *(each for each in QUERIES if each.name in ("join", *LINEAR))]
    maintained = Maintained(world, dice(6), FORMATS[1])
    maintained.create(queries)
    jobs = dict[str, int]()

    for change in ("update", None, "update", None):
        # Plans are compiled by the first change of each kind.
        if change is None:
            maintained.append("o", 4)
        else:
            maintained.change("o", change)
        point = world.next_point()
        for name, query in maintained.tables.items():
            before = started_jobs(world.session)
            run = world.tick(name, point)
            jobs[f"{query.name} {run.strategy}"] = started_jobs(world.session) - before
            assert world.rows(name) == world.plain(query.sql), query.name

    assert not any(jobs.values()), jobs
    assert jobs.keys() >= {f"{each.name} {way}" for each in queries for way in ("stages", "append")}
