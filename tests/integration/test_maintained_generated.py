"""Generated queries and histories: a refresh that may apply what changed gives what plain Spark gives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RunStatus
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.integration.maintained_world import AUTO, FORMATS, INCREMENTAL
from tests.integration.refresh_world import RefreshWorld, Row
from tests.integration.test_right_generated import COLUMNS, COMMON, TABLES, data_commits, insert, queries, rows

pytestmark = pytest.mark.spark

CREATED = "(ds STRING, hh STRING, k INT, v STRING) USING iceberg"
appends = st.builds(insert, st.sampled_from(TABLES), rows)
commits = st.lists(st.one_of(appends, data_commits), min_size=1, max_size=3).map(
    lambda found: list(chain.from_iterable(found))
)


@dataclass(frozen=True, kw_only=True)
class History:
    """Tables over the same sources, and what is committed to the sources before each refresh of all of them."""

    properties: str
    sources: tuple[list[Row], ...]
    queries: list[str]
    rounds: list[list[str]]


histories = st.builds(
    History,
    properties=st.sampled_from(FORMATS),
    sources=st.tuples(*[rows] * len(TABLES)),
    queries=st.lists(queries, min_size=4, max_size=4),
    rounds=st.lists(commits, min_size=2, max_size=3),
)


def wrong(world: RefreshWorld, history: History) -> list[object]:
    """Play a history; return each query and reason after which a table had other rows than its query."""
    for table, values in zip(TABLES, history.sources, strict=True):
        world.spark(f"CREATE TABLE {table} {CREATED} TBLPROPERTIES ({history.properties})", *insert(table, values))
    world.spark(
        f"CREATE VIEW v1 AS SELECT {COLUMNS} FROM t1 WHERE v IS NOT NULL",
        f"CREATE VIEW v2 AS SELECT * FROM v1 UNION ALL SELECT {COLUMNS} FROM t2 -- all",
    )
    texts = {
        f"mt_{number}": text.replace("{namespace}", world.namespace) for number, text in enumerate(history.queries)
    }
    for name, text in texts.items():
        try:
            world.create(name, text, clauses=INCREMENTAL)
        except DefinitionInvalid:
            # No change of its sources could be applied.
            world.create(name, text, clauses=AUTO)
    found: list[object] = []
    for statements in history.rounds:
        world.spark(*statements)
        world.tick("mt_0")
        for name, text in texts.items():
            run = world.runs(name)[-1] if name == "mt_0" else world.tick(name, world.clock.now())
            ended = run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED)
            if not ended or world.rows(name) != world.plain(text):
                found.append((text, statements, run.status, run.error, run.reason))
    return found


@pytest.mark.timeout(600)
@given(history=histories)
@settings(max_examples=2, derandomize=True, phases=[Phase.explicit, Phase.generate], **COMMON)
def test_applied_changes_give_what_plain_spark_gives(
    history: History, spark_driver: SparkDriver, tmp_path: Path
) -> None:
    assert wrong(RefreshWorld(spark_driver, tmp_path), history) == []


@pytest.mark.slow
@pytest.mark.timeout(1800 * DEPTH)
@given(history=histories)
@settings(max_examples=4 * DEPTH, **COMMON)
def test_many_applied_changes_give_what_plain_spark_gives(
    history: History, spark_driver: SparkDriver, tmp_path: Path
) -> None:
    assert wrong(RefreshWorld(spark_driver, tmp_path), history) == []
