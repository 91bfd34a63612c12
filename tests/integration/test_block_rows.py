"""The change of a query is found by keys: what its operators return at these, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from random import Random
from types import SimpleNamespace

import pytest

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages import look_ups as stage_look_ups
from mt_core.incremental.stages.blocks import Blocks
from mt_core.incremental.stages.computed_facts import facts_of_readings
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.incremental.stages.query_blocks import blocks_of
from mt_core.incremental.strategy import TooManyRows
from mt_core.spark.iceberg import look_ups
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.incremental import spark_bags
from mt_core.spark.incremental.bags import Change
from mt_core.spark.incremental.computed_reading import RunReadings
from mt_core.spark.incremental.spark_bags import SparkBags
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings import keyed_readings
from mt_core.spark.readings.keyed_readings import KeyedReadings
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.reading_versions import ReadingVersions
from mt_core.tables.engine import Query, SourceChanges, SourceVector
from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import MERGE_ON_READ
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

# How rows of tables are found. Each query is tested with one of these, or in a deep run with all.
ACCESSES = ("memory", "files", "job")
_RANKED = "SELECT k, id, day, rank() OVER (PARTITION BY k ORDER BY price DESC) AS r FROM o"
_AVERAGES = "SELECT k, avg(price) AS a FROM o GROUP BY k"
QUERIES = {
    "left join": "SELECT c.name, o.m[1] AS price "
    "FROM c LEFT JOIN (SELECT k, price, map(1, price) AS m FROM o) o ON c.k = o.k AND o.price > 20",
    "right join": "SELECT o.id, c.name FROM c RIGHT JOIN o ON c.k = o.k WHERE o.price < 200",
    "full join": "SELECT c.k AS ck, o.k AS ok, o.price FROM c FULL JOIN o ON c.k = o.k",
    "null-safe join": "SELECT c.name, p.w FROM c LEFT JOIN p ON c.k <=> p.k",
    "exists": "SELECT c.* FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.k = c.k AND o.price > c.k)",
    "not exists": "SELECT c.* FROM c WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.k = c.k)",
    "exists or": "SELECT c.k FROM c WHERE c.k > 25 OR EXISTS (SELECT 1 FROM o WHERE o.k = c.k)",
    "groups": "SELECT k, max(price) AS m, count(DISTINCT day) AS n FROM o GROUP BY k",
    "having": "SELECT k, name, count(*) AS n FROM c GROUP BY k, name HAVING count(*) > 1",
    "distinct": "SELECT DISTINCT day, k FROM o",
    "window": "SELECT id, rank() OVER (PARTITION BY k ORDER BY price) AS r FROM o",
    "first of each": f"SELECT k, id FROM ({_RANKED}) WHERE r <= 2",
    "union": "SELECT k, name AS x FROM c UNION ALL SELECT k, CAST(day AS STRING) FROM o WHERE day > 3",
    "join of groups": f"SELECT c.name, g.a FROM c JOIN ({_AVERAGES}) g ON c.k = g.k",
    "above its average": f"SELECT o.id FROM o JOIN ({_AVERAGES}) g ON o.k = g.k WHERE o.price > g.a",
    "star": "SELECT p.w, c.name, max(o.price) OVER (PARTITION BY o.k, o.day) AS s "
    "FROM o JOIN c ON o.k = c.k JOIN p ON p.k = c.k",
    "nested": "SELECT c.name, l.n FROM c LEFT JOIN (SELECT o.k, count(*) AS n "
    "FROM o LEFT ANTI JOIN p ON o.day = p.w GROUP BY o.k) l ON c.k = l.k",
    "join of a window": f"SELECT p.w, x.r FROM p LEFT JOIN ({_RANKED}) x ON p.w = x.day",
    "groups of a union": "SELECT u.k, max(u.v) AS m "
    "FROM (SELECT k, price AS v FROM o UNION ALL SELECT k, w FROM p) u GROUP BY u.k",
    "union with values": "SELECT k, name FROM c UNION ALL VALUES (1L, 'a'), (NULL, 'b')",
    "limit": "SELECT c.name, l.w "
    "FROM c JOIN (SELECT k, w FROM f ORDER BY k, w LIMIT 5 OFFSET 1) l ON c.k = l.k",
    "correlated": "SELECT c.name, (SELECT max(price) FROM o WHERE o.k = c.k) AS m FROM c",
    "used twice": "SELECT i, j FROM (WITH w AS (SELECT id, k, day FROM o WHERE day < 8) "
    "SELECT a.id AS i, b.id AS j, c.name FROM w a JOIN w b ON a.k = b.day JOIN c ON c.k = b.k)",
    "used twice in a left join": "SELECT * FROM (WITH w AS (SELECT k, name FROM c) "
    "SELECT a.name, b.name AS other FROM w a LEFT JOIN w b ON a.k = b.k AND a.name < b.name)",
    "product": "SELECT c.name, f.w FROM c LEFT JOIN f ON c.k < f.w",
}


def create(world: RefreshWorld) -> None:
    world.spark(
        f"CREATE TABLE c (k BIGINT, name STRING) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})",
        "INSERT INTO c SELECT IF(id % 11 = 0, NULL, id % 33), concat('c', id % 20) FROM range(50)",
        "CREATE TABLE o (id INT, k INT, price DECIMAL(9, 2), day INT) USING iceberg "
        f"TBLPROPERTIES ({MERGE_ON_READ})",
        "INSERT INTO o SELECT id, IF(id % 7 = 0, NULL, id % 30), id * 7 % 90, id % 10 "
        "FROM range(0, 200, 1, 3)",
        f"CREATE TABLE p (k INT, w INT) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})",
        "INSERT INTO p SELECT IF(id % 5 = 0, NULL, id), id % 13 FROM range(25)",
        "CREATE TABLE f (k INT, w INT) USING iceberg",
        "INSERT INTO f SELECT id % 3, id FROM range(20)",
    )


def change(world: RefreshWorld, random: Random) -> None:
    """Change some rows of c, o and p; those of f never change."""
    one, two, three = (random.randrange(30) for _ in range(3))
    statements = {
        "c": (
            f"INSERT INTO c VALUES ({one}, 'new'), (NULL, 'new'), ({two + 20}, 'c1'), ({two + 20}, 'c1')",
            f"DELETE FROM c WHERE k = {two} OR k = {three} OR (k IS NULL AND name = 'c{one}')",
            f"UPDATE c SET k = {one} WHERE k = {three} OR name = 'c{two}'",
        ),
        "o": (
            f"INSERT INTO o VALUES (1000, {one}, 7, 3), (1001, NULL, 8, NULL), (1002, {two}, NULL, 5)",
            f"DELETE FROM o WHERE k = {three} OR id % 40 = {one}",
            f"UPDATE o SET price = price + 1, day = NULL WHERE id % 50 = {two}",
        ),
        "p": (
            f"INSERT INTO p VALUES ({one}, {two}), (NULL, 3)",
            f"DELETE FROM p WHERE k = {two} OR w = {three}",
            f"UPDATE p SET k = NULL WHERE k = {one}",
        ),
    }
    for source in random.sample(sorted(statements), random.randint(1, 3)):
        world.spark(*random.sample(statements[source], random.randint(1, 3)))


class Changes:
    """The changes of a query in a world."""

    def __init__(self, world: RefreshWorld, text: str) -> None:
        self.world = world
        self.query = Query(text=text, catalog="lake", namespace=(world.namespace,))
        self.since = self.vector()

    def vector(self) -> SourceVector:
        return self.world.engine.sources.read_vector(self.query)

    def found(self) -> Change[ComputedRows]:
        """Return the change of all rows of the query since the last call, as its block finds it."""
        session, (old, new) = self.world.session, (pins(self.since), pins(vector := self.vector()))
        lineage = self.world.contexts.versions.lineage(self.query)
        changes = self.world.engine.changes.changes_since(self.query, self.since, vector)
        assert isinstance(changes, SourceChanges), changes
        self.since = vector
        query = StagedQuery.of_lineage(session, lineage)
        trees = [read_plan(tree) for tree in query.trees()]
        blocks = blocks_of(trees, "[0,[]]", len(changes.readings))
        assert isinstance(blocks, Blocks), blocks
        changed = frozenset(n for n, each in changes.by_reading().items() if each.kind.changes_rows)
        with ExitStack() as stack:
            images = ReadingImages(session=session, lineage=lineage, changes=changes, old=old, new=new)
            tables = LocalRelations(
                session=session,
                readings=KeyedReadings(
                    session=session,
                    lineage=lineage,
                    versions=ReadingVersions.at(session, lineage, new),
                    scopes=changes.shape.scopes,
                ),
                images=images.of(changed, stack),
                changed_readings=changed,
            )
            bags = SparkBags(session=session, lineage=lineage, query=query)
            facts = facts_of_readings(blocks, {number: tables.facts(number) for number in blocks.tables()})
            return RunReadings(bags=bags, tables=tables).block(blocks, facts).change()


@pytest.fixture(params=ACCESSES)
def access(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How rows of tables are found."""
    if request.param != "memory":
        monkeypatch.setattr(SourceFacts, "is_small", property(lambda facts: facts.rows == 20))
    if request.param == "job":
        monkeypatch.setattr(look_ups, "MOST_FILES", 0)
    return str(request.param)


def test_the_change_of_a_query_is_the_difference_of_its_results(world: RefreshWorld, access: str) -> None:
    create(world)
    random = dice(27)
    names = sorted(QUERIES) if DEPTH > 1 else sorted(QUERIES)[ACCESSES.index(access) :: len(ACCESSES)]
    queries = {name: Changes(world, QUERIES[name]) for name in names}
    results = {name: counted(world.plain(QUERIES[name])) for name in names}
    for _ in range(rounds(1, 3)):
        change(world, random)
        for name, changes in queries.items():
            before, after = results[name], counted(world.plain(QUERIES[name]))

            found = changes.found()

            rows = {sign: counted(map(tuple, each.frame.collect())) for sign, each in found.signed()}
            assert rows.get(1, Counter()) == after - before, name
            assert rows.get(-1, Counter()) == before - after, name
            results[name] = after


def test_few_groups_of_a_large_source_are_looked_up(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    text = QUERIES["above its average"]
    before, changes = counted(world.plain(text)), Changes(world, text)
    monkeypatch.setattr(stage_look_ups, "MOST_ROWS", 50)
    # Neither the keys nor the prices, so no average changes.
    world.spark("UPDATE o SET id = id + 1000 WHERE k = 3")

    change = changes.found()

    after = counted(world.plain(text))
    assert counted(map(tuple, change.added.frame.collect())) == after - before != Counter()
    assert counted(map(tuple, change.removed.frame.collect())) == before - after


def test_operators_may_be_computed_by_jobs(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world)
    text = QUERIES["nested"]
    before, changes = counted(world.plain(text)), Changes(world, text)
    world.spark("DELETE FROM o WHERE k = 3", "INSERT INTO p VALUES (3, 4)", "INSERT INTO c VALUES (5, 'new')")
    monkeypatch.setattr(spark_bags, "PLANS", SimpleNamespace(run=lambda *given: None))
    monkeypatch.setattr(keyed_readings, "MOST_BYTES", 0)

    change = changes.found()

    after = counted(world.plain(text))
    assert counted(map(tuple, change.added.frame.collect())) == after - before != Counter()
    assert counted(map(tuple, change.removed.frame.collect())) == before - after


def test_a_relation_that_names_its_version_does_not_change(world: RefreshWorld) -> None:
    create(world)
    version = world.session.sql(f"SELECT snapshot_id FROM lake.{world.namespace}.c.snapshots").first()
    assert version is not None
    text = (
        f"SELECT o.id, a.name, p.w FROM o JOIN c VERSION AS OF {version[0]} a ON a.k = o.k "
        "LEFT JOIN p ON p.k = o.day"
    )
    before, changes = counted(world.plain(text)), Changes(world, text)
    world.spark("DELETE FROM c", "INSERT INTO o VALUES (1000, 3, 7, 4)", "DELETE FROM p WHERE k = 4")

    change = changes.found()

    after = counted(world.plain(text))
    assert counted(map(tuple, change.added.frame.collect())) == after - before != Counter()
    assert counted(map(tuple, change.removed.frame.collect())) == before - after != Counter()


def test_operators_whose_rows_take_too_much_memory_are_not_computed(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    changes = Changes(world, QUERIES["left join"])
    world.spark("INSERT INTO c SELECT 3, concat('x', id) FROM range(20)")
    monkeypatch.setattr(spark_bags, "MOST_BYTES", 100)

    with pytest.raises(TooManyRows):
        changes.found()


def counted(rows: Iterable[tuple[object, ...]]) -> Counter[str]:
    return Counter(map(repr, rows))
