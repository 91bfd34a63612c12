"""Materialized tables over random sources, each of which must have the rows of its query
after every refresh.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from mt_core.incremental import cost
from mt_core.model.run import RunStatus
from mt_core.spark.iceberg import look_ups, scan_tasks
from mt_core.spark.incremental import maintained_rows
from mt_core.spark.readings import reading_images, row_images
from tests.depth import DEPTH
from tests.integration.refresh_world import RefreshWorld
from tests.support.maintained_queries import QUERIES, SOURCES, MaintainedQuery

INCREMENTAL, AUTO = (f"WITH ('refresh.strategy' = '{strategy}')" for strategy in ("incremental", "auto"))
TEXTS = ("'a'", "'b'", "'ab'", "NULL")
COPY_ON_WRITE = "'format-version' = '2'"
MERGE_ON_READ = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("update", "delete", "merge"))
FORMATS = (
    COPY_ON_WRITE,
    f"'format-version' = '2', {MERGE_ON_READ}",
    f"'format-version' = '3', {MERGE_ON_READ}",
)
"""How sources keep changed rows: in files written again, with delete files, with deletion vectors."""
OTHER_VALUE = "a scalar subquery has another value"
TOO_MANY = "more rows changed than the driver holds"
WITHIN_LIMIT = "a row was removed that may be within the LIMIT"
KINDS = ("update", "delete", "merge", "overwrite", "truncate", "rollback", "compaction")
RESHAPES = (
    "ADD COLUMN more INT",
    "ALTER COLUMN more TYPE BIGINT",
    "ALTER COLUMN more FIRST",
    "RENAME COLUMN more TO most",
    "DROP COLUMN most",
)
"""Changes of the columns of a source that no query reads, of which one follows the other."""
PARTS = 4
"""Into how many tests the queries are divided."""


@dataclass(slots=True)
class Maintained:
    """A world with the sources and one materialized table for each query;
    `options` are further ones of the tables.

    `partitions` has for each source what it is partitioned by.
    `reasons` has for each query why its last refresh did what it did.
    """

    world: RefreshWorld
    random: random.Random
    properties: str = COPY_ON_WRITE
    options: str = ""
    partitions: Mapping[str, str] = field(default_factory=dict)
    tables: dict[str, MaintainedQuery] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    _reshaped: Counter[str] = field(default_factory=Counter)

    def create(self, queries: Sequence[MaintainedQuery]) -> None:
        for name, columns in SOURCES.items():
            keys = f"PARTITIONED BY ({self.partitions[name]})" if name in self.partitions else ""
            self.world.spark(
                f"CREATE TABLE {name} ({columns}) USING iceberg {keys} TBLPROPERTIES ({self.properties})"
            )
        # In two commits, so that a rollback takes rows away.
        for rows in (20, 10):
            self.append("o", rows)
            self.append("c", rows // 2)
        for number, query in enumerate(queries):
            is_maintained = {*query.appends.values(), *query.rows.values()} != {"recompute"}
            clauses = "" if query.partition is None else f"PARTITIONED BY ({query.partition}) "
            clauses += (INCREMENTAL if is_maintained else AUTO).replace(")", f"{self.options})")
            run = self.world.create(f"mt_{number}", query.sql, clauses=clauses)
            assert run.status is RunStatus.SUCCEEDED, (query.name, run.error)
            self.tables[f"mt_{number}"] = query

    def append(self, source: str, rows: int) -> None:
        """Add random rows, with NULLs and duplicates."""
        self.world.spark(f"INSERT INTO {self._columns(source)} VALUES {self._rows(source, rows)}")

    @staticmethod
    def _columns(source: str) -> str:
        """Return a source with the columns that rows are given for: it may have more of them."""
        return (
            f"{source} "
            f"({', '.join(column.split()[0] for column in re.split(r', (?=[a-z])', SOURCES[source]))})"
        )

    def _rows(self, source: str, rows: int) -> str:
        return ", ".join(self._order() if source == "o" else self._customer() for _ in range(rows))

    def _order(self) -> str:
        pick = self.random.choice
        amount = pick(["NULL", str(self.random.randrange(1, 60))])
        day = pick(["NULL", f"DATE'2026-0{self.random.randrange(1, 5)}-11'"])
        return (
            f"({self.random.randrange(200)}, {pick(['NULL', *map(str, range(12))])}, {amount}, {day}, "
            f"{pick(TEXTS)}, {amount})"
        )

    def _customer(self) -> str:
        pick = self.random.choice
        return f"({pick(['NULL', *map(str, range(14))])}, {pick(TEXTS)}, {self.random.randrange(5)})"

    def change(self, source: str, kind: str) -> None:
        """Change rows of a source: *kind* is one of `KINDS`."""
        table, rows = f"{self.world.namespace}.{source}", self._rows(source, 6)
        key, other = ("id % 3", "s = s || 'x'") if source == "o" else ("cap % 3", "seg = seg || 'x'")
        picked = f"coalesce({key}, 0) = {self.random.randrange(2)}"
        columns = ", ".join(column.split()[0] for column in SOURCES[source].split(", ", 1)[:1])
        match kind:
            case "update":
                self.world.spark(f"UPDATE {source} SET {other}, cid = cid + 1 WHERE {picked}")
            case "delete":
                self.world.spark(f"DELETE FROM {source} WHERE {picked}")
            case "merge":
                self.world.spark(
                    f"MERGE INTO {source} t USING (SELECT DISTINCT {columns} AS k FROM {source} "
                    f"WHERE {picked}) n ON t.{columns} = n.k WHEN MATCHED AND {key} = 0 THEN DELETE "
                    f"WHEN MATCHED THEN UPDATE SET {other}"
                )
            case "overwrite":
                self.world.spark(f"INSERT OVERWRITE {self._columns(source)} VALUES {rows}")
            case "truncate":
                self.world.spark(
                    f"TRUNCATE TABLE {source}", f"INSERT INTO {self._columns(source)} VALUES {rows}"
                )
            case "rollback":
                snapshots = f"SELECT snapshot_id FROM lake.{table}.snapshots ORDER BY committed_at"
                first = self.world.session.sql(snapshots).first()
                assert first is not None
                self.world.spark(f"CALL lake.system.rollback_to_snapshot('{table}', {first[0]})")
            case "compaction":
                options = "map('rewrite-all', 'true')"
                self.world.spark(
                    f"DELETE FROM {source} WHERE {picked}",
                    f"CALL lake.system.rewrite_data_files(table => '{table}', options => {options})",
                    f"INSERT INTO {self._columns(source)} VALUES {rows}",
                )
            case _:
                raise AssertionError(kind)

    def expire(self, source: str) -> str:
        """Let the old versions of a source go, which tell how its rows changed;
        return what a refresh says of it.
        """
        table = f"table => '{self.world.namespace}.{source}'"
        self.world.spark(
            f"CALL lake.system.expire_snapshots({table}, older_than => TIMESTAMP "
            "'2999-01-01', retain_last => 1)"
        )
        return "has expired"

    def reshape(self, source: str) -> None:
        """Change a column of a source that no query reads, without a commit."""
        self.world.spark(f"ALTER TABLE {source} {RESHAPES[self._reshaped[source] % len(RESHAPES)]}")
        self._reshaped[source] += 1

    def refresh(self) -> dict[str, str]:
        """Refresh all tables on schedule; assert that each has the rows of its query;
        return how each got them, by query.
        """
        ways = {}
        first, *others = self.tables
        runs = {first: self.world.tick(first)}
        for name in others:
            runs[name] = self.world.tick(name, self.world.clock.now())
        for name, query in self.tables.items():
            assert runs[name].status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), (
                query.name,
                runs[name].error,
            )
            assert self.world.rows(name) == self.world.plain(query.sql), (query.name, runs[name].reason)
            self.reasons[query.name] = str(runs[name].reason)
            if runs[name].status is RunStatus.SUCCEEDED:
                refused = (
                    each for each in (OTHER_VALUE, TOO_MANY, WITHIN_LIMIT) if each in str(runs[name].reason)
                )
                ways[query.name] = next(refused, None) or self.way(name)
        return ways

    def way(self, name: str) -> str:
        """Return how the newest snapshot of a table got its rows."""
        metadata = self.world.engine.metadata.load(self.world.table(name).identifier)
        return str(next(iter(self.world.engine.metadata.ancestors(metadata))).strategy)


def picked(part: int, eighth: int) -> Sequence[MaintainedQuery]:
    """Return the queries of a part: all of them in a deep run, otherwise one eighth,
    of which the other test takes another.
    """
    queries = QUERIES[part::PARTS]
    return queries if DEPTH > 1 else queries[eighth::8]


def take_tables_for_large(monkeypatch: pytest.MonkeyPatch, large: bool, *, files: bool) -> None:
    """Change tables of a few rows in place if they are taken for *large*, by jobs if their *files* are."""
    if large:
        monkeypatch.setattr(cost, "LARGE_TABLE", 0)
        monkeypatch.setattr(cost, "MOST_IN_PLACE", 100)
    if files:
        monkeypatch.setattr(maintained_rows, "SMALL", 0)
        monkeypatch.setattr(row_images, "MOST_READ_ROWS", -1)
        monkeypatch.setattr(reading_images, "MOST_ROWS", -1)
        for limits in (look_ups, scan_tasks):
            monkeypatch.setattr(limits, "MOST_FILES", -1)


def check_ways(ways: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Assert that queries were kept in the ways *expected*, but for those of which a scalar subquery
    gave another value, those that read nothing of what changed, and those that need few changed rows.
    """
    others = (OTHER_VALUE, TOO_MANY, WITHIN_LIMIT, "nothing")
    assert {name: way for name, way in ways.items() if name in expected and way not in others} == {
        name: way for name, way in expected.items() if ways.get(name) not in others
    }
