"""Late rows over real Spark: the partitions they belong to, found in appended files and in files
that were rewritten.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from mt_core.model.run import RefreshRun
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.tables.engine import Maintenance, Query
from mt_core.tables.refresh.forecast import touched_by
from tests.integration.refresh_world import RefreshWorld

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PARTITIONED = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"
COUNTED = "SELECT date_format(ts, 'yyyy-MM-dd') AS ds, count(*) AS n FROM clicks GROUP BY 1"
RANKED = "SELECT day AS ds, v, row_number() OVER (PARTITION BY day ORDER BY v) AS place FROM clicks"


@pytest.fixture
def world(spark_driver: SparkDriver) -> RefreshWorld:
    return RefreshWorld(spark_driver)


def taken(run: RefreshRun) -> list[str | None]:
    """Return the days that a run refreshed."""
    return sorted(spec.items[0][1] or "" for spec in run.scope.specs or ())


@pytest.mark.slow
def test_late_rows_are_found_by_a_column_of_the_source_and_by_the_query(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE clicks (ts TIMESTAMP, day STRING, v INT) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.update.mode' = 'merge-on-read')",
        *(
            f"INSERT INTO clicks VALUES (TIMESTAMP'2026-02-{day} 10:00:00', '2026-02-{day}', {number})"
            for number, day in enumerate(("25", "26", "27"))
        ),
    )
    world.create("counted", COUNTED, clauses=PARTITIONED)
    world.create("ranked", RANKED, clauses=PARTITIONED)
    own = world.clock.now().strftime("%Y-%m-%d")

    world.spark("INSERT INTO clicks VALUES (TIMESTAMP'2026-02-26 11:00:00', '2026-02-26', 9)")
    counted = world.tick("counted")
    ranked = world.tick("ranked", world.clock.now())

    assert taken(counted) == taken(ranked) == ["2026-02-26", own]
    assert "late rows in 1 earlier partition: ds=2026-02-26" in str(counted.reason)
    assert world.rows("counted") == world.plain(COUNTED)
    assert world.rows("ranked") == world.plain(RANKED)

    next_own = world.clock.now().strftime("%Y-%m-%d")
    world.spark("UPDATE clicks SET ts = ts + INTERVAL 1 DAY, day = '2026-02-26' WHERE day = '2026-02-25'")
    counted = world.tick("counted")
    ranked = world.tick("ranked", world.clock.now())

    assert taken(counted) == taken(ranked) == ["2026-02-25", "2026-02-26", next_own]
    assert world.rows("counted") == world.plain(COUNTED)
    assert world.rows("ranked") == world.plain(RANKED)


@pytest.mark.slow
def test_late_rows_are_found_although_sources_had_no_commit_or_got_columns_that_no_query_reads(
    world: RefreshWorld,
) -> None:
    joined = "SELECT o.ds, c.seg, sum(o.v) AS v FROM o JOIN c ON o.cid = c.cid GROUP BY o.ds, c.seg"
    world.spark(
        "CREATE TABLE o (ds STRING, cid INT, v INT) USING iceberg",
        "CREATE TABLE c (cid INT, seg STRING) USING iceberg",
    )
    world.create("joined", joined, clauses=PARTITIONED)
    own = world.clock.now().strftime("%Y-%m-%d")
    world.spark(
        "INSERT INTO c VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO o VALUES ('2026-02-25', 1, 1), ('2026-02-26', 2, 2), ('2026-02-27', 1, 3)",
    )
    first = world.tick("joined")
    after_first = world.rows("joined"), world.plain(joined)
    world.spark("UPDATE c SET seg = 'z' WHERE cid = 1", "ALTER TABLE o ADD COLUMN note STRING FIRST")
    second = world.tick("joined")

    assert taken(first) == ["2026-02-25", "2026-02-26", "2026-02-27", own]
    assert after_first[0] == after_first[1]
    assert taken(second)[:2] == ["2026-02-25", "2026-02-27"]
    assert (world.rows("joined"), second.pinned) == (world.plain(joined), True)
    assert world.sql("VERIFY MATERIALIZED TABLE joined").warnings == ()


@pytest.mark.parametrize(
    ("partitions", "change", "has_jobs"),
    [
        (
            "day, v",
            (
                "INSERT INTO clicks VALUES (DATE'2026-02-26', 7, 'x'), (NULL, 8, 'y'), "
                "(DATE'2026-02-26', 7, 'z')"
            ),
            False,
        ),
        ("months(day), v", "INSERT INTO clicks VALUES (DATE'2026-02-26', 7, 'x'), (NULL, 8, 'y')", True),
        ("day", "UPDATE clicks SET s = 'x' WHERE v < 2", True),
    ],
)
def test_the_manifests_of_a_source_in_partitions_name_those_that_rows_were_appended_to(
    world: RefreshWorld, partitions: str, change: str, has_jobs: bool
) -> None:
    world.spark(
        f"CREATE TABLE clicks (day DATE, v INT, s STRING) USING iceberg PARTITIONED BY ({partitions})",
        "INSERT INTO clicks VALUES (DATE'2026-02-25', 1, 'a'), (DATE'2026-02-27', 2, 'b')",
    )
    query = Query(
        text="SELECT day, v, count(DISTINCT s) AS n FROM clicks GROUP BY day, v",
        catalog="lake",
        namespace=(world.namespace,),
    )
    since, job_id = world.engine.sources.read_vector(query), uuid4().hex
    world.spark(change)
    vector = world.engine.sources.read_vector(query)
    changes = world.engine.changes.changes_since(query, since, vector)
    assert not isinstance(changes, str)
    strategy = touched_by(changes, changes.by_reading(), ["day", "v"])

    found = world.engine.writes.touched_partitions(
        job_id, query, vector, Maintenance(strategy=strategy, changes=changes, since=since, base="")
    )

    appended = {("2026-02-26", "7"), (None, "8")}
    assert found == (appended if change.startswith("INSERT") else {("2026-02-25", "1")})
    assert (world.engine.jobs.progress(job_id) is not None) is has_jobs
