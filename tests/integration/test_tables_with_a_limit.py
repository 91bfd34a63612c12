"""Tables whose query ends with ORDER BY and LIMIT change by the change of all rows of the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from math import inf
from random import Random

import pytest
from pyarrow import Table, array, int32
from pyspark.sql.types import IntegerType, StructField, StructType

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.blocks import Blocks
from mt_core.incremental.stages.first_rows import Limit, limit_of
from mt_core.incremental.stages.query_blocks import blocks_of
from mt_core.incremental.strategy import UNREAD, LimitReached, Strategy, Ties, Way
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import TableDefinition
from mt_core.spark.iceberg import computed_rows
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.find_rows import TableVersion
from mt_core.spark.iceberg.replace_rows import AllRows
from mt_core.spark.incremental import first_rows_change
from mt_core.spark.incremental.first_rows_change import FirstRowsChange
from mt_core.spark.incremental.table_change import TableChange
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.tables.engine import SourceChanges
from mt_core.tables.refresh import change_plan
from mt_core.tables.services import query_of
from tests.depth import dice, rounds
from tests.integration.maintained_world import AUTO, INCREMENTAL
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TIED = "recomputed: rows on both sides of the LIMIT are equal in the ORDER BY"
REACHED = "recomputed: a row was removed that may be within the LIMIT"
QUERIES = {
    "all_columns": "SELECT at, name FROM o ORDER BY at DESC, name LIMIT 5",
    "stored_in_another_order": (
        "SELECT name AS b, id, at AS a FROM o ORDER BY o.at NULLS LAST, id, name LIMIT 4"
    ),
    "of_a_join": "SELECT c.seg, o.id FROM o JOIN c ON o.k = c.k ORDER BY seg DESC NULLS FIRST, id LIMIT 6",
    "more_than_there_are": "SELECT id, name FROM o WHERE id % 3 = 0 ORDER BY name, id LIMIT 500",
}


@pytest.fixture(autouse=True)
def maintain_first_rows(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all tables maintained by the change of the rows below their LIMIT."""

    def first_rows(changes: SourceChanges, _: object, definition: TableDefinition) -> Strategy:
        lineage = world.contexts.versions.lineage(query_of(definition))
        trees = [read_plan(tree) for tree in StagedQuery.of_lineage(world.session, lineage).trees()]
        limit = limit_of(trees[0])
        assert limit is not None
        blocks = blocks_of(trees, limit.place, len(changes.readings))
        assert isinstance(blocks, Blocks), blocks
        return Strategy(way=Way.STAGES, reason="first rows", rows=blocks, limit=limit)

    monkeypatch.setattr(change_plan, "strategy_for", first_rows)
    for reason in ("_dear", "recently_failed"):
        monkeypatch.setattr(change_plan, reason, lambda *_: None)


def create(world: RefreshWorld, rows: int) -> None:
    world.spark(
        "CREATE TABLE o (id INT, k INT, at DECIMAL(5, 1), name STRING) USING iceberg",
        "INSERT INTO o SELECT id, id % 7, IF(id % 11 = 0, NULL, id * 13 % 40 / 2), concat('n', id * 3 % 10) "
        f"FROM range({rows})",
        "CREATE TABLE c (k INT, seg STRING) USING iceberg",
        "INSERT INTO c SELECT id, IF(id = 3, NULL, concat('s', id % 3)) FROM range(6)",
    )


@pytest.mark.parametrize("by_job", [False, True])
def test_a_table_has_the_first_rows_of_its_query_after_each_change(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, by_job: bool
) -> None:
    random = dice(5 + by_job)
    create(world, 30)
    for name, query in QUERIES.items():
        columns = "(a DECIMAL(7, 1), b STRING, id BIGINT) " if name == "stored_in_another_order" else ""
        assert world.create(name, query, clauses=f"{columns}{AUTO}").error is None
    if by_job:
        monkeypatch.setattr(computed_rows, "MOST_LOCAL", 20)
        monkeypatch.setattr(LocalRelations, "change", lambda *_: None)

    runs = list[RefreshRun]()
    for _ in range(rounds(4, 12)):
        one, two, three = (random.randrange(30) for _ in range(3))
        statements = [
            f"INSERT INTO o VALUES ({one}, {two % 7}, {three}, 'n{one % 10}'), ({one}, 3, NULL, NULL)",
            f"DELETE FROM o WHERE id = {one}",
            f"UPDATE o SET at = at + 7, name = 'n{two % 10}' WHERE id = {three}",
            f"UPDATE o SET k = k + 1 WHERE id % 10 = {one % 10}",
            f"UPDATE c SET seg = 's{two % 4}' WHERE k = {one % 6}",
        ]
        world.spark(*random.sample(statements, 2))
        point = world.next_point()
        for name, query in QUERIES.items():
            run = world.tick(name, point)

            assert run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), run.error
            fields = "b, id, a" if name == "stored_in_another_order" else "*"
            assert world.plain(f"SELECT {fields} FROM {name}") == world.plain(query), (name, run.reason)
            runs.append(run)

    reasons = [str(run.reason) for run in runs if run.strategy == "recompute"]
    assert all(reason.endswith(REACHED) for reason in reasons), reasons
    assert len(reasons) < len(runs) / 2, reasons


def test_rows_are_computed_again_if_the_change_does_not_say_which_are_the_first(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (at INT, name STRING) USING iceberg",
        "INSERT INTO o VALUES (1, 'a'), (2, 'b'), (3, 'c'), (5, 'e'), (9, 'z'), (9, 'y')",
    )
    query = "SELECT name, at FROM o ORDER BY at DESC LIMIT 4"
    world.create("mt", query, clauses=INCREMENTAL)

    def refreshed(*statements: str) -> tuple[str | None, str]:
        world.spark(*statements)
        run = world.tick("mt")
        # Of equal rows any may be within the LIMIT.
        assert world.plain("SELECT at FROM mt") == world.plain(f"SELECT at FROM ({query})"), run.reason
        return run.strategy, str(run.reason).partition("; ")[2]

    # The table has rows of 9, 9, 5 and 3.
    assert refreshed("DELETE FROM o WHERE at = 2", "INSERT INTO o VALUES (0, 'x')") == (
        "nothing",
        f"first rows; {UNREAD}",
    )
    assert refreshed("INSERT INTO o VALUES (4, 'd'), (NULL, 'n')") == ("stages", "first rows")
    assert refreshed("UPDATE o SET at = 6 WHERE name = 'a'") == ("stages", "first rows")
    assert refreshed("INSERT INTO o VALUES (5, 'g')") == ("recompute", f"first rows; {TIED}")
    assert refreshed("DELETE FROM o WHERE name = 'z'") == ("recompute", f"first rows; {REACHED}")
    assert refreshed("INSERT INTO o VALUES (8, 'h'), (7, 'i')") == ("stages", "first rows")


ROWS = StructType([StructField("a", IntegerType()), StructField("b", IntegerType())])
Pair = tuple[int | None, int | None]


@pytest.mark.parametrize("columns", [1, 2])
def test_the_first_rows_follow_from_those_of_the_table_and_from_the_change(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    random, limit, raised = dice(11), 3, Counter[type]()
    order = ((0, "DESC NULLS LAST"), (1, "ASC NULLS FIRST"))[:columns]
    rows_kept = Limit(rows=limit, order=order, total=columns == 2, place="", columns=(0, 1))

    def key(row: Pair) -> tuple[float, ...]:
        return (
            inf if row[0] is None else -row[0],
            -inf if row[1] is None else row[1],
        )[:columns]

    for _ in range(rounds(40, 1000)):
        before = [_pair(random) for _ in range(random.randrange(8))]
        after = [row for row in before if random.random() < 0.8]
        after += [_pair(random) for _ in range(random.randrange(3))]
        net = Counter(after)
        net.subtract(before)
        rows = sorted(before, key=key)[:limit]
        with monkeypatch.context() as patch, ExitStack() as stack:
            patch.setattr(first_rows_change, "all_rows", lambda *_, rows=rows: _local(world, ROWS, rows))
            copies = StructType([*ROWS.fields, StructField("n", IntegerType())])
            change = FirstRowsChange(
                table=TableChange(
                    session=world.session,
                    lineage=None,
                    at=TableVersion(table=None, snapshot=""),
                    name="",
                    columns=("a", "b"),
                    modes=None,
                    small=True,
                    stack=stack,
                ),
                limit=rows_kept,
                columns=("a", "b"),
                net=_local(world, copies, [(*row, n) for row, n in net.items() if n]),
                copies="n",
            )
            found = _outcome(change)
        if isinstance(found, LimitReached | Ties):
            raised[type(found)] += 1
            border = {key(row) for row in sorted(after, key=key)[limit - 1 : limit + 1]}
            gone = [key(row) for row, n in net.items() if n < 0]
            is_reached = len(rows) == limit and min(gone, default=(inf,)) <= key(rows[-1])
            assert is_reached if isinstance(found, LimitReached) else len(border) == 1, (rows, net)
            continue
        if found is not None:
            assert isinstance(found.rows, ComputedRows)
            assert found.rows.rows is not None
            rows = [tuple(row.values()) for row in found.rows.rows.to_pylist()]
        assert sorted(map(key, rows)) == sorted(map(key, after))[:limit], (rows, net)
        assert Counter(rows) <= Counter(after)

    assert raised[LimitReached], raised
    assert bool(raised[Ties]) == (columns == 1), raised


def _outcome(change: FirstRowsChange) -> AllRows | LimitReached | Ties | None:
    try:
        return change.change()
    except (LimitReached, Ties) as error:
        return error


def _pair(random: Random) -> Pair:
    return random.choice([None, 1, 2, 3, 4, 5, 6]), random.choice([None, 1, 2])


def _local(world: RefreshWorld, schema: StructType, rows: Sequence[tuple[int | None, ...]]) -> ComputedRows:
    """Return rows of integers that the driver holds."""
    values = {name: [row[each] for row in rows] for each, name in enumerate(schema.names)}
    columns = {name: array(each, int32()) for name, each in values.items()}
    return ComputedRows(session=world.session, schema=schema, table=Table.from_pydict(columns))


def test_few_changed_rows_take_their_places_without_a_job(world: RefreshWorld) -> None:
    create(world, 30)
    world.create("mt", QUERIES["all_columns"], clauses=INCREMENTAL)

    for statement in ("INSERT INTO o VALUES (50, 1, 30, 'a')", "UPDATE o SET at = 31 WHERE id = 11"):
        world.spark(statement)
        point, jobs = world.next_point(), started_jobs(world.session)

        run = world.tick("mt", point)

        assert started_jobs(world.session) == jobs, run.reason
        assert (run.strategy, world.rows("mt")) == ("stages", world.plain(QUERIES["all_columns"]))
