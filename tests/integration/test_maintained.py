"""A refresh that applies what changed gives what the query gives, in the way that the shape of the query allows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mt_core.maintenance.delta import numbered
from mt_core.model.run import RunStatus
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.maintenance.query_shapes import plan_of
from mt_core.spark.maintenance.source_changes import pieces_of
from mt_core.spark.queries.lineage import LineageReader
from mt_core.tables.engine import Query
from tests.depth import DEPTH
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.maintained_queries import QUERIES, SOURCES, MaintainedQuery
from tests.support.recorded_plans import recorded, trimmed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SMALL = ("self join", "union all", "join and aggregate", "average", "limit")
PARTS = 4
INCREMENTAL, AUTO = (f"WITH ('refresh.strategy' = '{strategy}')" for strategy in ("incremental", "auto"))


@dataclass(slots=True)
class Maintained:
    """A world with the sources and one materialized table for each query."""

    world: RefreshWorld
    random: random.Random
    tables: dict[str, MaintainedQuery] = field(default_factory=dict)

    def create(self, queries: Sequence[MaintainedQuery]) -> None:
        self.world.spark(*(f"CREATE TABLE {name} ({columns}) USING iceberg" for name, columns in SOURCES.items()))
        self.append("o", 30)
        self.append("c", 8)
        for number, query in enumerate(queries):
            is_maintained = set(query.appends.values()) != {"recompute"}
            run = self.world.create(f"mt_{number}", query.sql, clauses=INCREMENTAL if is_maintained else AUTO)
            assert run.status is RunStatus.SUCCEEDED, (query.name, run.error)
            self.tables[f"mt_{number}"] = query

    def append(self, source: str, rows: int) -> None:
        """Add random rows, with NULLs and duplicates."""
        values = ", ".join(self._order() if source == "o" else self._customer() for _ in range(rows))
        self.world.spark(f"INSERT INTO {source} VALUES {values}")

    def _order(self) -> str:
        pick = self.random.choice
        amount = pick(["NULL", str(self.random.randrange(1, 60))])
        day = pick(["NULL", f"DATE'2026-0{self.random.randrange(1, 5)}-11'"])
        return f"({self.random.randrange(200)}, {pick(['NULL', *map(str, range(12))])}, {amount}, {day}, {pick(TEXTS)}, {amount})"

    def _customer(self) -> str:
        pick = self.random.choice
        return f"({pick(['NULL', *map(str, range(14))])}, {pick(TEXTS)}, {self.random.randrange(5)})"

    def refresh(self) -> dict[str, str]:
        """Refresh all tables on schedule; assert that each has the rows of its query; return how each got them, by query."""
        ways = {}
        first, *others = self.tables
        runs = {first: self.world.tick(first)}
        for name in others:
            runs[name] = self.world.tick(name, self.world.clock.now())
        for name, query in self.tables.items():
            assert runs[name].status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), (query.name, runs[name].error)
            assert self.world.rows(name) == self.world.plain(query.sql), (query.name, runs[name].reason)
            if runs[name].status is RunStatus.SUCCEEDED:
                ways[query.name] = self.way(name)
        return ways

    def way(self, name: str) -> str:
        """Return how the newest snapshot of a table got its rows."""
        snapshots = f"lake.{self.world.namespace}.{name}.snapshots"
        text = f"SELECT summary['freshtable.strategy'] FROM {snapshots} ORDER BY committed_at DESC LIMIT 1"
        return str(self.world.plain(text)[0][0])


TEXTS = ("'a'", "'b'", "'ab'", "NULL")


def check_appends(maintained: Maintained, rounds: int) -> None:
    for _ in range(rounds):
        for source in SOURCES:
            maintained.append(source, 4)

            ways = maintained.refresh()

            expected = {
                query.name: query.appends[source] for query in maintained.tables.values() if source in query.appends
            }
            assert {name: way for name, way in ways.items() if name in expected} == expected
        for source in SOURCES:
            maintained.append(source, 3)
        maintained.refresh()


def test_appended_rows_are_applied_in_the_way_that_the_query_allows(world: RefreshWorld) -> None:
    maintained = Maintained(world, random.Random(1))
    maintained.create([query for query in QUERIES if query.name in SMALL])

    check_appends(maintained, 1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_query_is_kept_in_its_way_while_rows_are_appended(world: RefreshWorld, part: int) -> None:
    maintained = Maintained(world, random.Random(part))
    maintained.create(QUERIES[part::PARTS])

    check_appends(maintained, DEPTH)


def test_the_recorded_plans_are_those_that_spark_makes(world: RefreshWorld) -> None:
    world.spark(*(f"CREATE TABLE {name} ({columns}) USING iceberg" for name, columns in SOURCES.items()))
    plans = recorded()

    for query in QUERIES[::9]:
        with active_session(world.session):
            pieces = pieces_of(LineageReader(world.session).read(Query(text=query.sql)))
            plan = trimmed(*plan_of(world.session.sql(numbered(pieces))))
        assert plan == plans[query.name], query.name
