"""Generated sources, queries and histories: a refresh gives what plain Spark gives at the versions it recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH, rounds
from tests.integration.refresh_world import RefreshWorld, Row, in_order

pytestmark = pytest.mark.spark

TABLES = ("t1", "t2", "t3")
# v1 is a view of t1, v2 of v1 and t2: both named by TABLE, FROM and in back quotes.
RELATIONS = (*TABLES, "v1", "v2", "`v2`", "{namespace}.t1", "lake.{namespace}.t2")
COLUMNS = "ds, hh, k, v"
DAYS, HOURS = ("d1", "d2", "d'3"), ("00", "01")
COMMON = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
}

# ------------------------------------------------------------------------------------------------------------------ queries

names = st.sampled_from(RELATIONS)
predicates = st.sampled_from(
    ["k > 1", "v IS NOT NULL", "ds <> 'd1'", "hh = '00' OR k IS NULL", "length(v) % 2 = 1", "true"]
)


def _wider(queries: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return queries of the columns ds, hh, k, v that read *queries* in one way more."""
    inner = queries.map(lambda query: f"({query})")
    read = st.one_of(names, inner)
    return st.one_of(
        st.builds("SELECT {0} FROM {1} AS a WHERE {2}".format, st.just(COLUMNS), read, predicates),
        st.builds("SELECT a.ds, a.hh, a.k + 1 AS k, concat(a.v, '-') AS v FROM {0} a".format, read),
        st.builds("SELECT a.ds, a.hh, a.k, b.v FROM {0} a {1} JOIN {2} b ON a.k = b.k".format, read, joins, read),
        st.builds("SELECT a.ds, b.hh, a.k, b.v FROM {0} AS a JOIN {0} AS b ON a.k = b.k + 1".format, names),
        st.builds("SELECT * FROM ({1} UNION {0} {2})".format, st.sampled_from(["ALL", "DISTINCT"]), inner, inner),
        st.builds("SELECT DISTINCT ds, hh, CAST(NULL AS INT) AS k, v FROM {0}".format, read),
        st.builds("SELECT ds, hh, CAST(sum(k) AS INT) AS k, max(v) AS v FROM {0} GROUP BY ds, hh".format, read),
        st.builds("SELECT ds, hh, CAST(count(*) AS INT) AS k, 'n' AS v FROM {0} GROUP BY ALL".format, read),
        st.builds("SELECT {0} FROM {1} a WHERE k IN (SELECT k FROM {2} b)".format, st.just(COLUMNS), read, read),
        st.builds("SELECT {0} FROM {1} a WHERE {2} EXISTS (SELECT 1 FROM {3} b WHERE b.k = a.k)".format,
                  st.just(COLUMNS), read, st.sampled_from(["", "NOT"]), read),
        st.builds("SELECT ds, hh, (SELECT max(k) FROM {0} m) AS k, v FROM {1} a".format, read, read),
        st.builds("WITH {0} AS ({1}) SELECT {2} FROM {0}".format, shadows, queries, st.just(COLUMNS)),
        st.builds("WITH t1 AS ({0}), t2 AS (SELECT * FROM t1) SELECT t2.* FROM t2 JOIN {1} x ON x.k = t2.k".format, queries, read),
        st.builds("SELECT ds, hh, CAST(rank() OVER (PARTITION BY ds ORDER BY hh, k, v) AS INT) AS k, v FROM {0}".format, read),
    )  # fmt: skip


joins = st.sampled_from(["", "LEFT", "FULL", "LEFT OUTER"])
shadows = st.sampled_from([*TABLES, "v1", "other"])
simple = names.map(lambda name: f"SELECT {COLUMNS} FROM {name}")
queries = _wider(_wider(simple))


# -------------------------------------------------------------------------------------------------------------- histories

ks = st.one_of(st.none(), st.integers(0, 4))
rows = st.lists(
    st.tuples(
        st.sampled_from([*DAYS, None]), st.sampled_from([*HOURS, None]), ks, st.sampled_from(["a", "é", "", None])
    ),
    min_size=1,
    max_size=5,
)
tables = st.sampled_from(TABLES)
data_commits = st.one_of(
    st.builds(lambda table, rows: insert(table, rows), tables, rows),
    st.builds(lambda table, day: [f"DELETE FROM {table} WHERE ds = {_literal(day)}"], tables, st.sampled_from(DAYS)),
    st.builds(lambda table: [f"DELETE FROM {table} WHERE k IS NULL OR k < 2"], tables),
    st.builds(lambda table: [f"UPDATE {table} SET v = concat(v, '+'), k = k + 1"], tables),
    st.builds(lambda table: [f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE k > 0"], tables),
)
shape_changes = st.one_of(
    st.builds(lambda table: [f"ALTER TABLE {table} ADD COLUMN more_# STRING"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} DROP COLUMN IF EXISTS more_1"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} DROP COLUMN v", f"ALTER TABLE {table} ADD COLUMN v STRING"], tables),
    st.builds(lambda test: [f"CREATE OR REPLACE VIEW v1 AS SELECT {COLUMNS} FROM t1 WHERE {test}"], predicates),
    st.builds(lambda table: [f"CREATE OR REPLACE VIEW v2 (ds, hh, k, v) AS WITH v1 AS (SELECT * FROM {table}) "
                             "SELECT ds, hh, k, 'w' FROM v1"], tables),
)  # fmt: skip
commits = st.lists(st.one_of(data_commits, data_commits, shape_changes), min_size=1, max_size=2).map(
    lambda found: list(chain.from_iterable(found))
)
specs = st.lists(
    st.one_of(
        st.builds(lambda day: {"ds": day}, st.sampled_from(DAYS)),
        st.builds(lambda day, hour: {"ds": day, "hh": hour}, st.sampled_from(DAYS), st.sampled_from(HOURS)),
        st.builds(lambda hour: {"hh": hour}, st.sampled_from(HOURS)),
    ),
    min_size=1,
    max_size=3,
)


@dataclass(frozen=True, kw_only=True)
class Story:
    """A table over generated sources, and refreshes of it: commits before it, its partitions, commits during it."""

    partitioning: tuple[str, ...]
    sources: tuple[list[Row], ...]
    query: str
    keys: tuple[str, ...]
    layout: tuple[str, ...]
    refreshes: list[tuple[list[str], list[dict[str, str]], list[str]]]


stories = st.builds(
    Story,
    partitioning=st.tuples(
        *[st.sampled_from(["", "PARTITIONED BY (ds)", "PARTITIONED BY (bucket(2, k))"])] * len(TABLES)
    ),
    sources=st.tuples(*[rows] * len(TABLES)),
    query=queries,
    keys=st.sampled_from([(), ("ds",), ("ds", "hh"), ("ds", "hh")]),
    layout=st.sampled_from([(), (), ("bucket(2, k)",), ("truncate(1, v)", "bucket(2, hh)")]),
    refreshes=st.lists(st.tuples(commits, specs, commits), min_size=1, max_size=2),
)


def insert(table: str, rows: list[Row]) -> list[str]:
    """Return the statement that adds *rows* to a table."""
    return [f"INSERT INTO {table} ({COLUMNS}) VALUES {_values(rows)}"]


def _values(rows: list[Row]) -> str:
    return ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else '"' + str(value) + '"'


# ------------------------------------------------------------------------------------------------------------------- check


class Told:
    """A story that is being played."""

    def __init__(self, world: RefreshWorld, story: Story) -> None:
        self.world, self.story, self.columns = world, story, count(1)
        self.query = story.query.replace("{namespace}", world.namespace)
        for table, partitioning, rows in zip(TABLES, story.partitioning, story.sources, strict=True):
            world.spark(
                f"CREATE TABLE {table} (ds STRING, hh STRING, k INT, v STRING) USING iceberg {partitioning}",
                f"INSERT INTO {table} VALUES {_values(rows)}",
            )
        world.spark(
            f"CREATE VIEW v1 AS SELECT {COLUMNS} FROM t1 WHERE v IS NOT NULL",
            f"CREATE VIEW v2 AS SELECT * FROM v1 UNION ALL SELECT {COLUMNS} FROM t2 -- all",
        )

    def play(self) -> Iterator[tuple[RefreshRun, list[Row], list[Row]]]:
        """Yield each run of the story, with the rows of the table after it and those that it should have."""
        parts = (*self.story.keys, *self.story.layout)
        clauses = f"PARTITIONED BY ({', '.join(parts)})" if parts else ""
        run = self.world.create("mt", self.query, clauses=clauses)
        yield run, self.world.rows("mt"), self.world.plain(self.query)
        for before, specs, during in self.story.refreshes:
            self.spark(before)
            yield self.refresh([spec for spec in specs if spec.keys() <= set(self.story.keys)], during)

    def spark(self, texts: list[str]) -> None:
        """Execute statements; `#` is a number that was not there before."""
        self.world.spark(*[text.replace("#", str(next(self.columns))) if "#" in text else text for text in texts])

    def refresh(self, specs: list[dict[str, str]], during: list[str]) -> tuple[RefreshRun, list[Row], list[Row]]:
        """Refresh while the sources move; the rows should be those of one of the two states, the one that the run recorded."""
        world, old = self.world, self.world.rows("mt")
        early = (world.vector("mt").to_json(), world.plain(self.query))
        (run_id, *_) = [world.request("mt", **spec) for spec in specs or [{}]]

        world.work(before="write", do=lambda: self.spark(during))

        run = world.run(run_id)
        late = (world.vector("mt").to_json(), world.plain(self.query))
        plain = rows_at(early, late)(run) if run.status is RunStatus.SUCCEEDED else []
        inside = _inside(specs)
        kept = [row for row in old if not inside(row)]
        return run, world.rows("mt"), in_order(kept + [row for row in plain if inside(row)])


def rows_at(*states: tuple[tuple[dict[str, object], ...], list[Row]]) -> Callable[[RefreshRun], list[Row]]:
    """Return what finds the rows of the state whose vector a run has recorded."""

    def rows_of(run: RefreshRun) -> list[Row]:
        return next(rows for vector, rows in states if run.vector == vector)

    return rows_of


def _inside(specs: list[dict[str, str]]) -> Callable[[Row], bool]:
    if not specs:
        return lambda _row: True
    return lambda row: any(all(row[("ds", "hh").index(key)] == value for key, value in spec.items()) for spec in specs)


@pytest.mark.timeout(600)
@given(story=stories)
@settings(max_examples=4, derandomize=True, phases=[Phase.explicit, Phase.generate], **COMMON)
def test_a_refresh_gives_what_plain_spark_gives(story: Story, spark_driver: SparkDriver, tmp_path: Path) -> None:
    for run, rows, expected in Told(RefreshWorld(spark_driver, tmp_path), story).play():
        assert (run.status, run.error, rows) == (RunStatus.SUCCEEDED, None, expected)


@pytest.mark.slow
@pytest.mark.timeout(1800 * DEPTH)
@given(story=stories)
@settings(max_examples=rounds(4, 12), **COMMON)
def test_many_refreshes_give_what_plain_spark_gives(story: Story, spark_driver: SparkDriver, tmp_path: Path) -> None:
    for run, rows, expected in Told(RefreshWorld(spark_driver, tmp_path), story).play():
        assert (run.status, run.error, rows) == (RunStatus.SUCCEEDED, None, expected)
