"""Generated sources, queries and histories: a refresh gives what plain Spark gives at the versions
it recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH, rounds
from tests.integration.refresh_world import RefreshWorld, Row, in_order

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES = ("t1", "t2", "t3")
# v1 is a view of t1, v2 of v1 and t2: both named by TABLE, FROM and in back quotes.
RELATIONS = (*TABLES, "v1", "v2", "`v2`", "{namespace}.t1", "lake.{namespace}.t2")
# Sources at a version: a snapshot, a tag, a branch, the name of a branch, and times before
# and after all commits of a history. Spark refuses a version of a name that a WITH has taken.
AT_VERSIONS = (
    "{namespace}.t1 VERSION AS OF {first}",
    "{namespace}.t2 VERSION AS OF 'old'",
    "{namespace}.t3 VERSION AS OF 'audit'",
    "lake.{namespace}.t3.branch_audit",
    "{namespace}.t1 TIMESTAMP AS OF '{then}'",
    "{namespace}.t2 TIMESTAMP AS OF '2100-01-01'",
)
# What stands in the place of k and v where a query reads in which file a row is.
METADATA = (
    "CAST(_pos AS INT) AS k, _file AS v",
    "_spec_id AS k, CAST(_partition AS STRING) AS v",
    "k, concat(v, CAST(_deleted AS STRING)) AS v",
)
COLUMNS = "ds, hh, k, v"
DAYS, HOURS = ("d1", "d2", "d'3"), ("00", "01")
COMMON = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
}

# ---------------------------------------------------------------------------------------------------- queries

# Three of four are sources as they are.
names = st.one_of(*[st.sampled_from(RELATIONS)] * 3, st.sampled_from(AT_VERSIONS))
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
        st.builds("SELECT a.ds, a.hh, a.k, b.v FROM {0} a {1} JOIN {2} b ON a.k = b.k".format,
                  read, joins, read),
        st.builds("SELECT a.ds, b.hh, a.k, b.v FROM {0} AS a JOIN {0} AS b ON a.k = b.k + 1".format, names),
        st.builds("SELECT * FROM ({1} UNION {0} {2})".format,
                  st.sampled_from(["ALL", "DISTINCT"]), inner, inner),
        st.builds("SELECT DISTINCT ds, hh, CAST(NULL AS INT) AS k, v FROM {0}".format, read),
        st.builds("SELECT ds, hh, CAST(sum(k) AS INT) AS k, max(v) AS v FROM {0} GROUP BY ds, hh".format,
                  read),
        st.builds("SELECT ds, hh, CAST(count(*) AS INT) AS k, 'n' AS v FROM {0} GROUP BY ALL".format, read),
        st.builds("SELECT {0} FROM {1} a WHERE k IN (SELECT k FROM {2} b)".format,
                  st.just(COLUMNS), read, read),
        st.builds("SELECT {0} FROM {1} a WHERE {2} EXISTS (SELECT 1 FROM {3} b WHERE b.k = a.k)".format,
                  st.just(COLUMNS), read, st.sampled_from(["", "NOT"]), read),
        st.builds("SELECT ds, hh, (SELECT max(k) FROM {0} m) AS k, v FROM {1} a".format, read, read),
        st.builds("WITH {0} AS ({1}) SELECT {2} FROM {0}".format, shadows, queries, st.just(COLUMNS)),
        st.builds("WITH t1 AS ({0}), t2 AS (SELECT * FROM t1) SELECT t2.* "
                  "FROM t2 JOIN {1} x ON x.k = t2.k".format, queries, read),
        st.builds("SELECT ds, hh, CAST(rank() OVER (PARTITION BY ds ORDER BY hh, k, v) AS INT) AS k, v "
                  "FROM {0}".format, read),
    )  # fmt: skip


joins = st.sampled_from(["", "LEFT", "FULL", "LEFT OUTER"])
shadows = st.sampled_from([*TABLES, "v1", "other"])
simple = st.one_of(
    *[names.map(lambda name: f"SELECT {COLUMNS} FROM {name}")] * 3,
    st.builds(
        "SELECT ds, hh, {0} FROM {1}".format,
        st.sampled_from(METADATA),
        st.sampled_from([*TABLES, *AT_VERSIONS]),
    ),
)
queries = _wider(_wider(simple))


# -------------------------------------------------------------------------------------------------- histories

CREATED = "(ds STRING, hh STRING, k INT, v STRING, spare INT) USING iceberg"
COMPACT = "CALL lake.system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true'))"
ks = st.one_of(st.none(), st.integers(0, 4))
rows = st.lists(
    st.tuples(
        st.sampled_from([*DAYS, None]),
        st.sampled_from([*HOURS, None]),
        ks,
        st.sampled_from(["a", "é", "", None]),
    ),
    min_size=1,
    max_size=5,
)
tables = st.sampled_from(TABLES)
data_commits = st.one_of(
    st.builds(lambda table, rows: insert(table, rows), tables, rows),
    st.builds(
        lambda table, day: [f"DELETE FROM {table} WHERE ds = {_literal(day)}"], tables, st.sampled_from(DAYS)
    ),
    st.builds(lambda table: [f"DELETE FROM {table} WHERE k IS NULL OR k < 2"], tables),
    st.builds(lambda table: [f"UPDATE {table} SET v = concat(v, '+'), k = k + 1"], tables),
    st.builds(lambda table: [f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE k > 0"], tables),
    st.builds(lambda table: [COMPACT.format(table)], tables),
    st.builds(lambda table, rows: insert(table, rows, branch=".branch_audit"), tables, rows),
    st.builds(lambda table: [f"ALTER TABLE {table} CREATE OR REPLACE TAG old"], tables),
)
shape_changes = st.one_of(
    st.builds(lambda table: [f"ALTER TABLE {table} ADD COLUMN more_# STRING"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} DROP COLUMN IF EXISTS more_1"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} ADD COLUMN old_# INT FIRST",
                             f"ALTER TABLE {table} RENAME COLUMN spare TO new_#",
                             f"ALTER TABLE {table} ADD COLUMN spare INT"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} ALTER COLUMN spare TYPE BIGINT"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} ADD PARTITION FIELD bucket(1#, k) AS part_#"], tables),
    st.builds("ALTER TABLE {0} ALTER COLUMN {1}".format, tables,
              st.sampled_from(["v FIRST", "k AFTER v", "spare FIRST", "hh AFTER spare"]))
    .map(lambda text: [text]),
    st.builds(lambda table: [f"ALTER TABLE {table} RENAME COLUMN v TO was_#",
                             f"ALTER TABLE {table} ADD COLUMN v STRING"], tables),
    st.builds(lambda table: [f"ALTER TABLE {table} DROP COLUMN v",
                             f"ALTER TABLE {table} ADD COLUMN v STRING"], tables),
    st.builds(lambda test: [f"CREATE OR REPLACE VIEW v1 AS SELECT {COLUMNS} FROM t1 WHERE {test}"],
              predicates),
    st.builds(lambda table: ["CREATE OR REPLACE VIEW v2 (ds, hh, k, v) AS "
                             f"WITH v1 AS (SELECT * FROM {table}) SELECT ds, hh, k, 'w' FROM v1"], tables),
)  # fmt: skip
commits = st.lists(st.one_of(data_commits, data_commits, shape_changes), min_size=1, max_size=2).map(
    lambda found: list(chain.from_iterable(found))
)
# A column that queries read goes away or gets another type while one refresh comes, and what ends that.
breaks = st.sampled_from(
    [
        (["RENAME COLUMN k TO away"], ["RENAME COLUMN away TO k"]),
        (["RENAME COLUMN ds TO day"], ["RENAME COLUMN day TO ds"]),
        (["ALTER COLUMN k TYPE BIGINT"], ["RENAME COLUMN k TO wide_#", "ADD COLUMN k INT"]),
    ]
)
broken = st.one_of(
    *[st.just(([], []))] * 3,
    st.builds(
        lambda table, both: tuple([f"ALTER TABLE {table} {each}" for each in side] for side in both),
        tables,
        breaks,
    ),
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
    """A table over generated sources, and refreshes of it: commits before it,
    what breaks it and what mends it afterwards, its partitions, commits during it."""

    partitioning: tuple[str, ...]
    sources: tuple[list[Row], ...]
    query: str
    keys: tuple[str, ...]
    layout: tuple[str, ...]
    refreshes: list[tuple[list[str], tuple[list[str], list[str]], list[dict[str, str]], list[str]]]


stories = st.builds(
    Story,
    partitioning=st.tuples(
        *[st.sampled_from(["", "PARTITIONED BY (ds)", "PARTITIONED BY (bucket(2, k))"])] * len(TABLES)
    ),
    sources=st.tuples(*[rows] * len(TABLES)),
    query=queries,
    keys=st.sampled_from([(), ("ds",), ("ds", "hh"), ("ds", "hh")]),
    layout=st.sampled_from([(), (), ("bucket(2, k)",), ("truncate(1, v)", "bucket(2, hh)")]),
    refreshes=st.lists(st.tuples(commits, broken, specs, commits), min_size=1, max_size=2),
)


def insert(table: str, rows: list[Row], branch: str = "") -> list[str]:
    """Return the statement that adds *rows* to a table, or to a branch of it."""
    return [
        (
            f"INSERT INTO {f'lake.{{namespace}}.{table}{branch}' if branch else table} ({COLUMNS}) "
            f"VALUES {_values(rows)}"
        )
    ]


def _values(rows: list[Row]) -> str:
    return ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else '"' + str(value) + '"'


# ------------------------------------------------------------------------------------------------------ check


class GeneratedSources:
    """The tables and views that generated queries read, with a tag and a branch of each table,
    and statements about them.
    """

    def __init__(self, world: RefreshWorld, stored: Sequence[str], sources: Sequence[list[Row]]) -> None:
        self.world, self._numbers = world, count(1)
        for table, clauses, values in zip(TABLES, stored, sources, strict=True):
            world.spark(
                f"CREATE TABLE {table} {CREATED} {clauses}",
                *insert(table, values),
                f"ALTER TABLE {table} CREATE TAG old",
                f"ALTER TABLE {table} CREATE BRANCH audit",
            )
        world.spark(
            f"CREATE VIEW v1 AS SELECT {COLUMNS} FROM t1 WHERE v IS NOT NULL",
            f"CREATE VIEW v2 AS SELECT * FROM v1 UNION ALL SELECT {COLUMNS} FROM t2 -- all",
        )
        [self._first] = world.plain(
            f"SELECT snapshot_id, CAST(committed_at AS STRING) FROM lake.{world.namespace}.t1.snapshots"
        )

    def query(self, text: str) -> str:
        """Return a generated query over these tables."""
        first, then = map(str, self._first)
        return (
            text.replace("{namespace}", self.world.namespace)
            .replace("{first}", first)
            .replace("{then}", f"{then} UTC")
        )

    def spark(self, texts: Sequence[str]) -> None:
        """Execute generated statements; `#` is a number that was not there before."""
        for text in texts:
            numbered = text.replace("#", str(next(self._numbers))) if "#" in text else text
            self.world.spark(numbered.replace("{namespace}", self.world.namespace))

    def plain(self, query: str) -> list[Row] | None:
        """Return the rows of a query as plain Spark gives them now, or None where it cannot."""
        try:
            return self.world.plain(query)
        except PySparkException:
            return None

    def refuse(self, query: str, run: RefreshRun) -> bool:
        """Return whether a run failed, and rightly: the query or a view that it reads does,
        or a column has another type.
        """
        if run.status is not RunStatus.FAILED or "BIGINT now and was INT" in str(run.error):
            return run.status is RunStatus.FAILED
        # Below IN and EXISTS, Spark takes a column that a view has no more from the query around it.
        views = [f"TABLE {view}" for view in ("v1", "v2") if view in query]
        return any(self.plain(text) is None for text in (query, *views))


class PlayedStory:
    """A story that is being played."""

    def __init__(self, world: RefreshWorld, story: Story) -> None:
        self.world, self.story = world, story
        self.sources = GeneratedSources(world, story.partitioning, story.sources)
        self.query = self.sources.query(story.query)

    def play(self) -> Iterator[tuple[RefreshRun, list[Row], list[Row]]]:
        """Yield each run of the story, with the rows of the table after it and those that it should have."""
        parts = (*self.story.keys, *self.story.layout)
        clauses = f"PARTITIONED BY ({', '.join(parts)})" if parts else ""
        run = self.world.create("mt", self.query, clauses=clauses)
        yield run, self.world.rows("mt"), self.world.plain(self.query)
        for before, (breaking, mending), specs, during in self.story.refreshes:
            self.sources.spark([*before, *breaking])
            yield self.refresh(
                [spec for spec in specs if spec.keys() <= set(self.story.keys)], [] if breaking else during
            )
            self.sources.spark(mending)

    def refresh(
        self, specs: list[dict[str, str]], during: list[str]
    ) -> tuple[RefreshRun, list[Row], list[Row]]:
        """Refresh while the sources move; the rows should be those of one of the two states,
        the one that the run recorded.
        """
        world, old = self.world, self.world.rows("mt")
        early = self.state()
        (run_id, *_) = [world.request("mt", **spec) for spec in specs or [{}]]

        world.work(before="write", do=lambda: self.sources.spark(during)) if during else world.work()

        run = world.run(run_id)
        if not during and self.sources.refuse(self.query, run):
            return run, world.rows("mt"), old
        plain = rows_at(early, self.state())(run) if run.status is RunStatus.SUCCEEDED else []
        inside = _inside(specs)
        kept = [row for row in old if not inside(row)]
        return run, world.rows("mt"), in_order(kept + [row for row in plain if inside(row)])

    def state(self) -> tuple[tuple[dict[str, object], ...], list[Row] | None]:
        """Return the versions that the query would read now, and its rows;
        neither where plain Spark cannot read it.
        """
        plain = self.sources.plain(self.query)
        return () if plain is None else self.world.vector("mt").to_json(), plain


def rows_at(
    *states: tuple[tuple[dict[str, object], ...], list[Row] | None],
) -> Callable[[RefreshRun], list[Row]]:
    """Return what finds the rows of the state whose vector a run has recorded."""

    def rows_of(run: RefreshRun) -> list[Row]:
        return next(rows for vector, rows in states if rows is not None and run.vector == vector)

    return rows_of


def _inside(specs: list[dict[str, str]]) -> Callable[[Row], bool]:
    if not specs:
        return lambda _row: True
    return lambda row: any(
        all(row[("ds", "hh").index(key)] == value for key, value in spec.items()) for spec in specs
    )


def check(played: PlayedStory) -> None:
    for run, rows, expected in played.play():
        refused = played.sources.refuse(played.query, run)
        assert rows == expected
        assert refused or (run.status, run.error) == (RunStatus.SUCCEEDED, None)


@pytest.mark.timeout(1800 * DEPTH)
@given(story=stories)
@settings(max_examples=rounds(4, 13), **COMMON)
def test_many_refreshes_give_what_plain_spark_gives(story: Story, spark_driver: SparkDriver) -> None:
    check(PlayedStory(RefreshWorld(spark_driver), story))
