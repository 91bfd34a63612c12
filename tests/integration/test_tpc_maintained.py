"""The queries of TPC-H and TPC-DS as materialized tables, while rows of several of their sources come,
change and go at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RefreshRun, RunStatus
from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import AUTO, FORMATS, INCREMENTAL
from tests.integration.refresh_world import RefreshWorld, Row
from tests.integration.refresh_world import world as world
from tests.integration.staged_queries import check_rest
from tests.integration.tpc import TpcSuite, tpc_suite, without_choice
from tests.integration.tpc_plans import plans_of
from tests.support.tpc_plans import SUITES, recorded_queries

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOME_OF_TPCH = ("q3", "q4", "q6", "q12", "q13", "q18")
PARTS = 4
"""Into how many tests the queries of TPC-DS are divided."""
# A scalar subquery reads one value of the calendar.
CALENDAR = ("date_dim", "time_dim")
SLICES = 40
LATER = 5
"""How many slices of a large table come later."""
LARGE = 1000

log = logging.getLogger(__name__)


class TpcHistory:
    """The tables of a suite as sources that change, and a materialized table for each of some queries."""

    def __init__(
        self, world: RefreshWorld, random: Random, suite: TpcSuite, queries: Mapping[str, str]
    ) -> None:
        self.world, self.random, self.queries = world, random, queries
        self.files = suite.tables
        self.columns: dict[str, list[str]] = {}
        self.slices: dict[str, int] = {}
        for table, file in self.files.items():
            frame = world.session.read.parquet(str(file))
            self.columns[table], is_large = frame.columns, frame.count() > LARGE
            self.slices[table] = SLICES if is_large else 4
            world.spark(
                f"CREATE TABLE {table} USING iceberg "
                f"TBLPROPERTIES ({random.choice(FORMATS)}) AS SELECT * FROM parquet.`{file}` "
                f"WHERE {self._slice(table)} >= {LATER if is_large and table not in CALENDAR else 0}"
            )
        for name, text in self.queries.items():
            run = self._create(name, text)
            assert run.status is RunStatus.SUCCEEDED, (name, run.error)

    def _create(self, name: str, text: str) -> RefreshRun:
        try:
            return self.world.create(name, text, clauses=INCREMENTAL)
        except DefinitionInvalid:
            # No change of its sources could be applied.
            return self.world.create(name, text, clauses=AUTO)

    def _slice(self, table: str) -> str:
        """Return the slice of the rows of a table that a row belongs to, from 0."""
        return f"pmod(xxhash64({', '.join(self.columns[table])}), {self.slices[table]})"

    def change(self) -> list[str]:
        """Change half of the sources, by appended rows alone or in any way; return the statements."""
        tables = sorted(self.files.keys() - set(CALENDAR))
        kinds = self.random.choice((("append",), ("append", "update", "delete")))
        statements = [
            self._statement(table, self.random.choice(kinds))
            for table in self.random.sample(tables, (len(tables) + 1) // 2)
        ]
        self.world.spark(*statements)
        return statements

    def _statement(self, table: str, kind: str) -> str:
        picked = f"{self._slice(table)} = {self.random.randrange(self.slices[table])}"
        match kind:
            case "append":
                early = f"{self._slice(table)} = {self.random.randrange(LATER)}"
                return f"INSERT INTO {table} SELECT * FROM parquet.`{self.files[table]}` WHERE {early}"
            case "delete":
                return f"DELETE FROM {table} WHERE {picked}"
            case "update":
                column, value = (
                    self.random.choice(self.columns[table]),
                    self.random.choice(("min", "max", "mode")),
                )
                return f"UPDATE {table} SET {column} = (SELECT {value}({column}) FROM {table}) WHERE {picked}"
            case _:
                raise AssertionError(kind)

    def wrong(self, statements: Sequence[str]) -> list[object]:
        """Refresh all tables on schedule; return each query after which a table had other rows
        than plain Spark gives.
        """
        found: list[object] = []
        point = self.world.next_point()
        for name, text in self.queries.items():
            run = self.world.tick(name, point)
            rows, expected = (counted(self.world.plain(each)) for each in (f"TABLE {name}", text))
            way = run.strategy if run.status is RunStatus.SUCCEEDED else run.status
            log.warning(
                "%s: %s, %d rows, equal: %s; %s", name, way, expected.total(), rows == expected, run.reason
            )
            if run.status not in (RunStatus.SUCCEEDED, RunStatus.SKIPPED) or rows != expected:
                more, less = list((rows - expected).items())[:5], list((expected - rows).items())[:5]
                found.append((name, statements, run.error, run.reason, more, less))
        return found


def counted(rows: Sequence[Row]) -> Counter[Row]:
    """Return how often there is each row, with doubles as far as the order of a sum leaves them the same."""
    return Counter(
        tuple(float(f"{each:.9g}") if isinstance(each, float) else each for each in row) for row in rows
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables and queries of both suites are."""
    return tmp_path_factory.mktemp("tpc")


def check(history: TpcHistory, times: int) -> None:
    assert [wrong for _ in range(times) for wrong in history.wrong(history.change())] == []


@pytest.mark.timeout(900 * DEPTH)
def test_queries_of_tpch_have_their_rows_while_several_sources_change_at_random(
    world: RefreshWorld, folder: Path
) -> None:
    suite = tpc_suite("tpch", folder)
    queries = without_choice("tpch", suite.queries)
    some = queries if DEPTH > 1 else {name: queries[name] for name in SOME_OF_TPCH}

    history = TpcHistory(world, dice(1), suite, some)

    check(history, rounds(1, 1))


@pytest.mark.skipif(DEPTH == 1, reason="make test-deep runs it")
@pytest.mark.timeout(1800 * DEPTH)
@pytest.mark.parametrize("part", range(PARTS))
def test_queries_of_tpcds_have_their_rows_while_several_sources_change_at_random(
    world: RefreshWorld, folder: Path, part: int
) -> None:
    suite = tpc_suite("tpcds", folder)
    queries = tuple(without_choice("tpcds", suite.queries).items())

    history = TpcHistory(world, dice(part), suite, dict(queries[part::PARTS]))

    check(history, max(2, DEPTH // 5))


@pytest.mark.parametrize("name", SUITES if DEPTH > 1 else SUITES[:1])
def test_the_recorded_plans_of_a_suite_are_those_that_spark_makes(
    world: RefreshWorld, folder: Path, name: str
) -> None:
    assert plans_of(world.session, tpc_suite(name, folder)) == recorded_queries(name)


@pytest.mark.skipif(
    DEPTH == 1, reason="make test-deep runs it; test_staged_queries.py has queries of all shapes"
)
@pytest.mark.timeout(1800 * DEPTH)
@pytest.mark.parametrize("name", SUITES)
def test_the_rest_of_a_query_over_its_lowest_aggregates_returns_what_the_query_returns(
    world: RefreshWorld, folder: Path, name: str
) -> None:
    suite = tpc_suite(name, folder)
    for table, file in suite.tables.items():
        world.spark(f"CREATE TABLE {table} USING iceberg AS SELECT * FROM parquet.`{file}`")

    sums = [check_rest(world.session, *each) for each in without_choice(name, suite.queries).items()]

    assert len([number for number in sums if number]) > len(sums) * 0.8
