"""Generated queries and histories: a refresh that may apply what changed gives what plain Spark gives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RunStatus
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH, rounds
from tests.integration.maintained_world import AUTO, FORMATS, INCREMENTAL
from tests.integration.refresh_world import RefreshWorld, Row
from tests.integration.test_right_generated import (
    COMMON,
    TABLES,
    GeneratedSources,
    broken,
    data_commits,
    insert,
    queries,
    rows,
    shape_changes,
    tables,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXPIRE = (
    "CALL lake.system.expire_snapshots(table => '{0}', older_than => TIMESTAMP "
    "'2999-01-01', retain_last => 1)"
)
appends = st.builds(insert, st.sampled_from(TABLES), rows)
# What a refresh cannot tell the changes of a source by.
losses = st.one_of(shape_changes, tables.map(lambda table: [EXPIRE.format(table)]))
commits = st.lists(
    st.one_of(appends, data_commits, appends, data_commits, losses), min_size=1, max_size=3
).map(lambda found: list(chain.from_iterable(found)))
stored = st.tuples(
    *[st.sampled_from(["", "PARTITIONED BY (ds)", "PARTITIONED BY (hh, bucket(2, k))"])] * len(TABLES)
)
partitionings = st.sampled_from(
    [
        *("", "PARTITIONED BY (ds)", "PARTITIONED BY (ds, hh)"),
        *("PARTITIONED BY (bucket(2, k))", "PARTITIONED BY (ds, truncate(v, 1), bucket(k, 3))"),
    ]
)
by_day = st.sampled_from(["PARTITIONED BY (ds)", "PARTITIONED BY (ds, bucket(2, k))"])
# Whatever rows of a day change, all rows of that day may.
by_days = st.builds(
    "SELECT ds, hh, CAST(rank() OVER (PARTITION BY ds ORDER BY hh, k, v) AS INT) AS k, v FROM {0}".format,
    st.sampled_from([*TABLES, "v1", "v2", "(SELECT a.* FROM t1 a JOIN t2 b ON a.k = b.k)"]),
)


@dataclass(frozen=True, kw_only=True)
class History:
    """Tables over the same sources, each a query and its partitioning, and what is committed to the sources
    before each refresh of all of them, with what breaks queries and what mends them afterwards. `stored` has
    what each source is partitioned by."""

    properties: str
    stored: tuple[str, ...]
    sources: tuple[list[Row], ...]
    queries: tuple[tuple[str, str], ...]
    rounds: list[tuple[list[str], tuple[list[str], list[str]]]]


histories = st.builds(
    History,
    properties=st.sampled_from(FORMATS),
    stored=stored,
    sources=st.tuples(*[rows] * len(TABLES)),
    queries=st.tuples(*[st.tuples(queries, partitionings)] * 3, st.tuples(by_days, by_day)),
    rounds=st.lists(st.tuples(commits, broken), min_size=2, max_size=3),
)


def wrong(world: RefreshWorld, history: History) -> list[object]:
    """Play a history; return each query and reason after which a table had other rows than its query."""
    sources = GeneratedSources(
        world, [f"{keys} TBLPROPERTIES ({history.properties})" for keys in history.stored], history.sources
    )
    texts = {f"mt_{number}": sources.query(text) for number, (text, _) in enumerate(history.queries)}
    for (name, text), (_, keys) in zip(texts.items(), history.queries, strict=True):
        try:
            world.create(name, text, clauses=f"{keys} {INCREMENTAL}")
        except DefinitionInvalid:
            # No change of its sources could be applied.
            world.create(name, text, clauses=f"{keys} {AUTO}")
    found: list[object] = []
    for statements, (breaking, mending) in history.rounds:
        sources.spark([*statements, *breaking])
        point = world.next_point()
        for name, text in texts.items():
            before, run = world.rows(name), world.tick(name, point)
            refused = sources.refuse(text, run)
            ended = refused or run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED)
            if not ended or world.rows(name) != (before if refused else sources.plain(text)):
                found.append((text, statements, breaking, run.status, run.error, run.reason))
        sources.spark(mending)
    return found


@pytest.mark.timeout(1800 * DEPTH)
@given(history=histories)
@settings(max_examples=rounds(2, 5), **COMMON)
def test_many_applied_changes_give_what_plain_spark_gives(
    history: History, spark_driver: SparkDriver
) -> None:
    assert wrong(RefreshWorld(spark_driver), history) == []
