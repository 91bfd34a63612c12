"""Tables whose rows are replaced by the keys that changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.blocks import Blocks
from mt_core.incremental.stages.key_source import Division, KeySource, Lineage
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.incremental.stages.query_blocks import blocks_of
from mt_core.incremental.strategy import Strategy, Way
from mt_core.model.run import RunStatus
from mt_core.model.table import TableDefinition
from mt_core.spark.iceberg import computed_rows
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings import keyed_readings, reading_images
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.tables.engine import SourceChanges
from mt_core.tables.refresh import change_plan
from mt_core.tables.services import query_of
from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import INCREMENTAL, MERGE_ON_READ, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A query with the positions of its key, where the keys that changed are found, and what they restrict.

    `joined` is the column that is the key in the block below the only computed reading, if that has the keys.
    """

    sql: str
    lineages: tuple[Lineage, ...]
    positions: tuple[int, ...] = (0,)
    joined: str = ""
    is_reproducible: bool = False

    def division(self, blocks: Blocks) -> Division:
        numbers = sorted(blocks.tables())
        source = KeySource(
            tables={n: tuple(each[n] for each in self.lineages) for n in numbers if not self.joined}
        )
        if self.joined:
            block = next(iter(blocks.computed.values())).inputs[0]
            names = [column and column.column for column in block.columns]
            source = KeySource(tables={}, blocks=((block, (names.index(self.joined),)),))
        return Division(positions=self.positions, source=source, lineages=self.lineages)


_NUMBERED = "SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY price DESC, id) AS r FROM o"
_BOTH = ({0: "k", 1: "k"},)
QUERIES = {
    "sum_of_doubles": Keyed(sql="SELECT k, sum(x) AS s FROM o GROUP BY k", lineages=({0: "k"},)),
    "row_numbers": Keyed(sql=_NUMBERED, lineages=({0: "k"},)),
    "left_join": Keyed(
        sql="SELECT c.k, c.name, o.price FROM c LEFT JOIN o ON c.k = o.k",
        lineages=_BOTH,
        is_reproducible=True,
    ),
    "join_with_first_of_each": Keyed(
        sql=f"SELECT c.name, x.k, x.id FROM c JOIN ({_NUMBERED}) x ON x.k = c.k WHERE r < 3",
        positions=(1,),
        lineages=_BOTH,
    ),
    "two_columns": Keyed(
        sql="SELECT percentile(price, 0.5) AS p, k, day, max(x) AS m FROM o GROUP BY day, k",
        positions=(1, 2),
        lineages=({0: "k"}, {0: "day"}),
    ),
    "groups_by_doubles": Keyed(
        sql="SELECT x / 2 AS h, x, count(DISTINCT id) AS n FROM o GROUP BY x",
        positions=(1,),
        lineages=({0: "x"},),
    ),
    "keys_of_a_join": Keyed(
        sql="SELECT c.name, sum(o.x) AS s FROM o JOIN c ON o.k = c.k GROUP BY c.name",
        lineages=({1: "name"},),
        joined="name",
    ),
}


def create(world: RefreshWorld) -> None:
    world.spark(
        f"CREATE TABLE c (k BIGINT, name STRING) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})",
        "INSERT INTO c SELECT IF(id % 11 = 0, NULL, id % 33), concat('c', id % 20) FROM range(50)",
        "CREATE TABLE o (id INT, k INT, price DECIMAL(9, 2), day DATE, x DOUBLE) USING iceberg "
        f"TBLPROPERTIES ({MERGE_ON_READ})",
        "INSERT INTO o SELECT id, IF(id % 7 = 0, NULL, id % 30), id * 7 % 90, "
        "DATE'2026-03-01' + INT(id % 10), id % 10 / 4 FROM range(0, 200, 1, 3)",
    )


def change(world: RefreshWorld, number: int) -> None:
    """Change some rows of o, and of c in every second change."""
    one, two = number % 7, number % 11
    statements = [
        "INSERT INTO o VALUES (1002, 1, 9, NULL, -0D), (1003, 2, 9, NULL, DOUBLE('NaN')), (4, 4, 4, NULL, 0)",
        f"INSERT INTO o VALUES (1000, {one}, 7, DATE'2026-03-04', 1), (1001, NULL, 8, NULL, 2)",
        f"DELETE FROM o WHERE k = {two} OR id % 40 = {one}",
        f"UPDATE o SET price = price + 1, day = NULL, k = k + 1 WHERE id % 50 = {two}",
    ]
    if number % 2:
        statements += [
            f"INSERT INTO c VALUES ({one}, 'new'), (NULL, 'new'), ({two + 20}, 'c1'), ({two + 20}, 'c1')",
            f"UPDATE c SET k = {one} WHERE k = {two + 1} OR name = 'c{two}'",
        ]
    world.spark(*statements)


def maintain_by_key(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, *, by_value: bool = False) -> None:
    """Have changes of all tables applied by key, or by value if this is possible."""

    def by_key(changes: SourceChanges, _: object, definition: TableDefinition) -> Strategy:
        name = next(name for name, query in QUERIES.items() if query.sql == definition.original_query)
        lineage = world.contexts.versions.lineage(query_of(definition))
        trees = StagedQuery.of_lineage(world.session, lineage).trees()
        blocks = blocks_of([read_plan(tree) for tree in trees], "[0,[]]", len(changes.readings))
        assert isinstance(blocks, Blocks), blocks
        return Strategy(
            way=Way.STAGES,
            reason="by key",
            rows=blocks,
            division=QUERIES[name].division(blocks),
            by_key=not by_value or not QUERIES[name].is_reproducible,
        )

    monkeypatch.setattr(change_plan, "strategy_for", by_key)


def small_sources(_: pytest.MonkeyPatch) -> None:
    """Have the driver read sources whole."""


def look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the driver look rows up in sources."""
    monkeypatch.setattr(SourceFacts, "is_small", property(lambda _: False))


def refused_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jobs read the sources."""
    look_ups(monkeypatch)
    monkeypatch.setattr(keyed_readings, "MOST_LOCAL", -1)


def many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have executors hold the keys and the changed rows."""
    monkeypatch.setattr(reading_images, "MOST_ROWS", -1)
    monkeypatch.setattr(LocalRelations, "change", lambda *_: None)
    monkeypatch.setattr(computed_rows, "MOST_LOCAL", 0)


@pytest.mark.parametrize(
    ("limits", "in_place"),
    [(small_sources, False), (look_ups, True), (refused_look_ups, True), (many_keys, False)],
)
def test_a_table_has_the_rows_of_its_query_after_those_of_changed_keys_are_replaced(
    world: RefreshWorld,
    monkeypatch: pytest.MonkeyPatch,
    limits: Callable[[pytest.MonkeyPatch], None],
    in_place: bool,
) -> None:
    take_tables_for_large(monkeypatch, in_place, files=False)
    maintain_by_key(world, monkeypatch, by_value=limits is refused_look_ups)
    create(world)
    for name, query in QUERIES.items():
        assert world.create(name, query.sql, clauses=INCREMENTAL).error is None
    limits(monkeypatch)

    for step in dice(3).sample(range(1, 100, 1 if DEPTH > 1 else 2), rounds(1, 6)):
        change(world, step)
        point = world.next_point()
        for name, query in QUERIES.items():
            run = world.tick(name, point)

            assert (run.status, run.strategy) != (RunStatus.SUCCEEDED, "recompute"), (name, run.reason)
            assert world.rows(name) == world.plain(query.sql), (name, run.reason)


def test_rows_of_few_keys_are_replaced_without_a_job(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintain_by_key(world, monkeypatch)
    create(world)
    names = ("sum_of_doubles", "keys_of_a_join")
    for name in names:
        assert world.create(name, QUERIES[name].sql, clauses=INCREMENTAL).error is None

    for statement in (
        "INSERT INTO o VALUES (2000, 3, 7, NULL, 1), (2001, NULL, 8, NULL, 2)",
        "UPDATE o SET x = x + 1, k = k + 1 WHERE id IN (40, 41, 42)",
        "DELETE FROM o WHERE k = 3 OR k IS NULL",
    ):
        world.spark(statement)
        point, jobs = world.next_point(), started_jobs(world.session)

        runs = [world.tick(name, point) for name in names]

        assert started_jobs(world.session) == jobs, [run.reason for run in runs]
        assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
        for name in names:
            assert world.rows(name) == world.plain(QUERIES[name].sql), statement
