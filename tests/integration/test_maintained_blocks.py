"""Tables whose rows are maintained by the change of a block, without states."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import FORMATS, KINDS, Maintained, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.maintained_queries import QUERIES, MaintainedQuery

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
