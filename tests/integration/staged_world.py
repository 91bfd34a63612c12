"""Materialized tables that are maintained by stages, over random sources that change at once.

After every refresh, each table must have the rows of its query, and each state the groups of its stage.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from pyspark.sql import Row

from mt_core.errors import DefinitionInvalid
from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.delta import numbered
from mt_core.incremental.stages import look_ups as stage_look_ups
from mt_core.incremental.stages.blocks import place_of
from mt_core.incremental.strategy import Way
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.iceberg import look_ups
from mt_core.spark.queries.query_shapes import pieces_of
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings import keyed_readings
from mt_core.spark.states.kept_states import KeptStates
from mt_core.tables.refresh.forecast import kept_stages, strategy_for
from mt_core.tables.services import query_of
from tests.integration.maintained_world import AUTO, INCREMENTAL, RESHAPES
from tests.integration.refresh_world import RefreshWorld
from tests.integration.source_stories import TYPES
from tests.support.queries_with_stages import REQUIRED, SOURCES, QueryWithStages

CHANGES = {"append": 4, "update": 4, "delete": 3, "merge": 2, "overwrite": 1, "empty": 1, "compact": 1}
"""The kinds of changes whose rows a refresh can tell, and how often they are drawn."""
OTHERS = ("rollback", "expire", "reshape")
ACCESSES = ("memory", "mixed", "files", "spark", "whole")
"""How a refresh gets the rows that changed rows are joined with.

Those of small sources come from memory, others from look-ups of its own, from Spark, or from whole sources.
If it is mixed, only sources of up to `MIXED_ROWS` rows are small.
"""
MIXED_ROWS = 15
SMALL_PAGES = "'write.parquet.page-row-limit' = '5', 'write.parquet.row-group-size-bytes' = '1000'"
PARTITIONINGS = {
    "f": ("", "day", "bucket(3, k)", "truncate(1, g)"),
    "o": ("", "bucket(2, k)", "name"),
    "p": ("", "region"),
    "e": ("", "k"),
    "t": ("", "bucket(2, n)", "s"),
}


@dataclass(slots=True)
class Staged:
    """A world with the sources, and one materialized table for each query.

    `sources` are their columns with their types. `others` are the strategies of runs that did not apply
    changes to states although the compiler has stages for them, each with the reason of the last such run.
    """

    world: RefreshWorld
    random: random.Random
    properties: str
    is_partitioned: bool = False
    clauses: str = INCREMENTAL
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: SOURCES)
    tables: dict[str, QueryWithStages] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _reshaped: Counter[str] = field(default_factory=Counter)

    def create(self, queries: Sequence[QueryWithStages]) -> None:
        for name, types in self.sources.items():
            partitions = self.random.choice(PARTITIONINGS.get(name, ("",))) if self.is_partitioned else ""
            keys = f"PARTITIONED BY ({partitions})" if partitions else ""
            columns = ", ".join(
                f"{column} {TYPES[type_][0]}{' NOT NULL' if (name, column) in REQUIRED else ''}"
                for column, type_ in types.items()
            )
            self.world.spark(
                f"CREATE TABLE {name} ({columns}) USING iceberg {keys} TBLPROPERTIES "
                f"({self.properties}, 'write.distribution-mode' = 'none')"
            )
            self.world.spark(self._insert(name, 24))
        if "e" in self.sources:
            self.world.spark("TRUNCATE TABLE e")
        for number, query in enumerate(queries):
            name = f"mt_{number}"
            run = self._created(name, query.sql)
            assert run.status is RunStatus.SUCCEEDED, (query.name, run.error)
            self.tables[name] = query

    def _created(self, name: str, text: str) -> RefreshRun:
        try:
            return self.world.create(name, text, clauses=self.clauses)
        except DefinitionInvalid:
            # No change of its sources could be applied.
            return self.world.create(name, text, clauses=AUTO)

    def change(self, kinds: Sequence[str] = ()) -> list[str]:
        """Change at least one source, each in ways among *kinds*; return the statements."""
        drawn = list(kinds or CHANGES)
        weights = [CHANGES.get(kind, 1) for kind in drawn]
        sources = self.random.sample(tuple(self.sources), self.random.randint(1, len(self.sources)))
        statements = [
            statement
            for source in sources
            for kind in self.random.choices(drawn, weights, k=self.random.randint(1, 2))
            for statement in self._statements(source, kind)
        ]
        self._changed.update(sources)
        self.world.spark(*statements)
        return statements

    def append(self, source: str, rows: int) -> None:
        """Add random rows to a source, which is all that changes."""
        self._changed.add(source)
        self.world.spark(self._insert(source, rows))

    def refresh(self) -> dict[str, RefreshRun]:
        """Refresh all tables on schedule and check each; return the runs, by query."""
        point, runs = self.world.next_point(), {}
        for name, query in self.tables.items():
            run = self.world.tick(name, point)
            assert run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), (query.name, run.error, run.reason)
            self.check(name, run.strategy, run.reason)
            if run.strategy not in (None, "append", "stages", "nothing") and self._has_stages(name):
                self.others[f"{query.name}: {run.strategy}"] = str(run.reason)
            check_states(self.world, name)
            runs[query.name] = run
        self._changed.clear()
        return runs

    def _has_stages(self, name: str) -> bool:
        """Return whether the compiler has stages for changes of the sources that have changed."""
        definition = self.world.table(name).definition
        shaped = self.world.engine.changes.read_shape(query_of(definition))
        if isinstance(shaped, str):
            return False
        changes = {
            number: SourceChange(kind=ChangeKind.ROWS)
            for number, source in enumerate(shaped.readings)
            if source.rpartition(".")[2] in self._changed
        }
        return strategy_for(shaped, changes, definition).way is Way.STAGES

    def check(self, name: str, *facts: object) -> None:
        """Assert that a table has the rows of its query."""
        query = self.tables[name]
        rows, expected = (counted(self.world.plain(text)) for text in (f"TABLE {name}", query.sql))
        assert rows == expected, (query.name, *facts)

    # -------------------------------------------------------------------------------------------- statements

    def _statements(self, source: str, kind: str) -> Iterator[str]:
        match kind:
            case "append":
                yield self._insert(source, self.random.randint(1, 6))
            case "update":
                columns = self.random.sample(tuple(self.sources[source]), self.random.randint(1, 2))
                values = ", ".join(f"{column} = {self._value(source, column)}" for column in columns)
                yield f"UPDATE {source} SET {values} WHERE {self._picked(source)}"
            case "delete":
                yield f"DELETE FROM {source} WHERE {self._picked(source)}"
            case "merge":
                yield self._merge(source)
            case "overwrite":
                yield f"INSERT OVERWRITE {self._target(source)} VALUES {self._rows(source, 8)}"
            case "empty":
                yield self.random.choice((f"DELETE FROM {source}", f"TRUNCATE TABLE {source}"))
            case _:
                yield from self._maintenance(source, kind)

    def _maintenance(self, source: str, kind: str) -> Iterator[str]:
        """Yield statements after which a refresh may find other rows, or not how they changed."""
        table = f"{self.world.namespace}.{source}"
        match kind:
            case "compact":
                options = "map('rewrite-all', 'true')"
                yield f"CALL lake.system.rewrite_data_files(table => '{table}', options => {options})"
            case "rollback":
                history = f"SELECT snapshot_id FROM lake.{table}.history WHERE is_current_ancestor"
                snapshots = [row[0] for row in self.world.plain(history)]
                if snapshots:
                    yield f"CALL lake.system.rollback_to_snapshot('{table}', {self.random.choice(snapshots)})"
            case "expire":
                yield (
                    f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP "
                    "'2999-01-01', retain_last => 1)"
                )
            case "reshape":
                yield f"ALTER TABLE {source} {RESHAPES[self._reshaped[source] % len(RESHAPES)]}"
                self._reshaped[source] += 1
            case _:
                raise AssertionError(kind)

    def _insert(self, source: str, rows: int) -> str:
        return f"INSERT INTO {self._target(source)} VALUES {self._rows(source, rows)}"

    def _target(self, source: str) -> str:
        """Return a source with the columns that rows are given for: it may have more of them."""
        return f"{source} ({', '.join(self.sources[source])})"

    def _merge(self, source: str) -> str:
        key, *others = self.sources[source]
        name = self.random.choice(others)
        keys = ", ".join(f"({number})" for number in self.random.sample(range(9), 4))
        values = ", ".join(
            "n.key" if each == key else self._value(source, each) for each in self.sources[source]
        )
        return (
            f"MERGE INTO {source} t USING (VALUES {keys} AS v(key)) n ON t.{key} = n.key "
            f"WHEN MATCHED AND n.key % 3 = {self.random.randrange(3)} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {name} = {self._value(source, name)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(self.sources[source])}) VALUES ({values})"
        )

    def _picked(self, source: str) -> str:
        """Return a condition that some rows meet."""
        number, columns = self.random.randrange(3), ", ".join(self.sources[source])
        key = next(iter(self.sources[source]))
        return self.random.choice(
            (f"pmod(hash({columns}), 5) = {number}", f"coalesce({key}, 0) % 3 = {number}", f"{key} IS NULL")
        )

    def _rows(self, source: str, most: int) -> str:
        rows = [
            f"({', '.join(self._value(source, column) for column in self.sources[source])})"
            for _ in range(most)
        ]
        # Some rows come twice.
        return ", ".join((*rows, *self.random.choices(rows, k=self.random.randrange(3))))

    def _value(self, source: str, column: str) -> str:
        sql, value = TYPES[self.sources[source][column]]
        text = f"CAST({value(self.random)} AS {sql})"
        return f"coalesce({text}, 0)" if (source, column) in REQUIRED else text


def take_access(monkeypatch: pytest.MonkeyPatch, access: str) -> None:
    """Let refreshes get rows that are joined by one of `ACCESSES`, although sources are small."""
    level = ACCESSES.index(access)
    if level > 0:
        monkeypatch.setattr(stage_look_ups, "MOST_ROWS", -1 if level > 1 else MIXED_ROWS)
    if level > 2:
        monkeypatch.setattr(look_ups, "MOST_FILES", -1)
    if level > 3:
        monkeypatch.setattr(keyed_readings, "MOST_LOCAL", -1)


def check_states(world: RefreshWorld, name: str) -> int:
    """Assert that each state of a table has the groups of its stage over the sources as they are now.

    So have the values of scalar subqueries that are kept. Return the number of states and values.
    """
    table = world.table(name)
    shaped = world.engine.changes.read_shape(query_of(table.definition))
    plan = None if isinstance(shaped, str) else kept_stages(shaped, table.definition)
    if isinstance(shaped, str) or plan is None:
        return 0
    metadata = world.engine.metadata.load(table.identifier)
    described = next(each for each in world.engine.metadata.ancestors(metadata) if each.describes_rows)
    kept = KeptStates(world.session, world.contexts, table.identifier, metadata, described)
    lineage = world.contexts.versions.lineage(query_of(table.definition))
    query, states = StagedQuery.of(world.session, numbered(pieces_of(lineage))), 0
    leaves = {each: world.session.table(source) for each, source in enumerate(shaped.readings)}
    for value in plan.values:
        place = place_of(value.tree)
        with world.contexts.working():
            rows = kept.read(value.name, query.columns(place))
        if rows is not None:
            found, expected = (each.collect() for each in (rows.frame, query.rows(place, leaves, {})))
            assert repr(found[0][0]) == repr(expected[0][0] if expected else None), (name, value)
            states += 1
    for stage in plan.stages:
        place = stage.places[0]
        with world.contexts.working():
            rows = kept.read(stage.name, query.schema(place))
        if rows is not None:
            found, expected = (
                counted(map(_group, query.folded(place, each).collect()))
                for each in (rows.frame, query.groups(place, leaves))
            )
            assert found == expected, (name, stage.words, found - expected, expected - found)
            states += 1
    return states


def _group(row: Row) -> tuple[object, ...]:
    """Return a group, without the sums of no values."""
    fields = row.asDict()
    return tuple(
        None if name.startswith("s") and fields[f"n{name[1:]}"] == 0 else value
        for name, value in fields.items()
    )


def counted(rows: Iterable[tuple[object, ...]]) -> Counter[str]:
    """Return how often there is each row. NaN is equal to itself, and 0.0 differs from -0.0."""
    return Counter(map(repr, rows))
