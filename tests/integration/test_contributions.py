"""The groups that changed are the same whether the driver sums up what rows at hand add to them or a job of Spark's does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyarrow import Table

from mt_core.maintenance.delta import DeltaTexts, Reading
from mt_core.maintenance.merging import Merge
from mt_core.maintenance.shape import Occurrence, QueryShape
from mt_core.model.run import RunStatus
from mt_core.spark.maintenance.computed_rows import Computed, kept
from mt_core.spark.maintenance.contributions import contributions, subtracted
from mt_core.spark.maintenance.row_images import ImageViews, images_of
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = """
SELECT CAST(nullif(id % 7, 0) AS INT) AS k, nullif(CAST(id % 10 AS STRING), '1') AS s,
    DATE '2026-03-01' + CAST(id % 3 AS INT) AS day,
    TIMESTAMP '2026-03-01 22:30:00' + make_interval(0, 0, 0, 0, CAST(id % 9 AS INT)) AS at, id % 2 = 0 AS flag,
    CAST(nullif(id % 4, 2) AS DECIMAL(12, 2)) / 3 AS price, CAST(nullif(id % 6, 3) AS INT) AS n, id AS large,
    CAST(id % 3 AS DOUBLE) AS d, CAST(CAST(id % 8 AS STRING) AS BINARY) AS b,
    CAST(CASE WHEN id % 20 < 8 OR id % 10 = 3 THEN -1 WHEN id % 10 < 9 THEN 1 ELSE 2 END AS INT) AS copies
FROM range(200)
"""
SUMS: Merge = (None, "Count", "Sum")
HERE = {
    "SELECT k, count(*), sum(n) FROM {} GROUP BY k": SUMS,
    "SELECT s AS text, count(n) AS some, sum(price) AS total FROM {} AS x GROUP BY s": SUMS,
    "SELECT date_trunc('HOUR', at), count(1, n), sum(price * n) FROM {} WHERE flag GROUP BY 1": SUMS,
    "SELECT upper(s) || k, count(*) FILTER (WHERE n > 1), sum(n) FILTER (WHERE flag) FROM {} GROUP BY upper(s) || k": SUMS,
    "SELECT t, c, sum(v) FROM (SELECT day AS t, k AS c, CASE WHEN flag THEN n END AS v FROM {} WHERE n IS NOT NULL) GROUP BY ALL": (
        None,
        None,
        "Sum",
    ),
    "SELECT sum(large), b, price, flag FROM {} GROUP BY b, price, flag": ("Sum", None, None, None),
    "WITH w AS (SELECT k, n + 1 AS n FROM {} WHERE s <> '2') SELECT k, count(n), sum(n) FROM w WHERE n > 0 GROUP BY k": SUMS,
}
BY_JOB = {
    "SELECT k, count(*), sum(n) FROM {} WHERE false GROUP BY k": SUMS,
    "SELECT d, count(*), sum(n) FROM {} GROUP BY d": SUMS,
    "SELECT k, count(*), sum(d) FROM {} GROUP BY k": SUMS,
    "SELECT s COLLATE UTF8_LCASE, count(*), sum(n) FROM {} GROUP BY ALL": SUMS,
    "SELECT k, count(*), sum(large * 1000000000000000) FROM {} GROUP BY k": SUMS,
    "SELECT k, count(*), sum(e) FROM {} LATERAL VIEW explode(array(n, 1)) AS e GROUP BY k": SUMS,
    "SELECT * FROM (SELECT k, count(*), sum(n) FROM {} GROUP BY k) ORDER BY k": SUMS,
    "SELECT k, count(*), sum(n / (large - 5)) FROM {} GROUP BY k": SUMS,
}


class Query:
    """A query over the rows of a change; the lineage under which its plan is kept is its own."""

    def __init__(self, world: RefreshWorld, text: str, merge: Merge, *, counted: bool) -> None:
        before, after = text.split("{}")
        shape = QueryShape(
            occurrences={0: Occurrence()}, lineage=(), keys=(), merge=merge, row_count=0 if counted else None
        )
        self.session, self.merge, self.counted = world.session, merge, counted
        self.names = [f"c{place}" for place in range(len(merge))]
        self.texts = DeltaTexts(
            pieces=(before, Reading(name="o", source="o", alias=None), after),
            shape=shape,
            old={"o": "1"},
            new={"o": "2"},
            changed=frozenset({0}),
        )

    def here(self, images: ImageViews) -> Table | None:
        found = contributions(
            self.session,
            self,  # type: ignore[arg-type]
            (),
            lambda each: self.session.sql(replace(self.texts, images={"o": each}).added()),
            images,
            self.merge,
        )
        if found is None:
            return None
        return subtracted(found.removed, found.added, self.merge, counted=self.counted, doubt="doubt")

    def by_job(self, images: ImageViews) -> Table:
        text = replace(self.texts, images={"o": images}).subtracted(self.names, self.merge, "doubt")
        rows = kept(self.session.sql(text)).rows
        assert rows is not None
        return rows


def in_order(rows: Table) -> list[str]:
    return sorted(
        str(tuple(row.values())) for row in rows.rename_columns([str(n) for n in range(rows.num_columns)]).to_pylist()
    )


def changed_rows(world: RefreshWorld) -> Computed:
    """Return rows that left and rows that came, some more than once: of some values of `s` both, of others those of one side."""
    return kept(world.session.sql(ROWS))


@pytest.mark.parametrize("counted", [True, False])
def test_rows_at_hand_change_their_groups_as_a_job_finds(world: RefreshWorld, counted: bool) -> None:
    change = changed_rows(world)

    for text, merge in HERE.items():
        query = Query(world, text, merge, counted=counted)
        with images_of(change, "copies") as images:
            here, by_job = query.here(images), query.by_job(images)
        assert here is not None, text
        assert in_order(here) == in_order(by_job), text


def test_a_job_computes_groups_that_the_driver_cannot(world: RefreshWorld) -> None:
    change = changed_rows(world)

    with images_of(change, "copies") as images:
        here = {text: Query(world, text, merge, counted=True).here(images) for text, merge in BY_JOB.items()}

    assert here == dict.fromkeys(BY_JOB)


def test_an_update_of_few_rows_changes_the_sums_of_a_table_by_one_job(world: RefreshWorld) -> None:
    query = "SELECT k, count(*) AS n, sum(v) AS v FROM o GROUP BY k"
    world.spark("CREATE TABLE o USING iceberg AS SELECT id % 7 AS k, id AS v FROM range(100)")
    world.create("mt", query, clauses="WITH ('refresh.strategy' = 'incremental')")

    jobs = []
    for _ in range(2):
        world.spark("UPDATE o SET v = v + 1 WHERE v < 10")
        before = started_jobs(world.session)
        run = world.tick("mt")
        jobs.append(started_jobs(world.session) - before)

    assert (run.status, run.strategy, world.rows("mt")) == (RunStatus.SUCCEEDED, "merge", world.plain(query))
    assert jobs == [1, 1]
