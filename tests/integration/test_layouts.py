"""Tables whose files are laid out by transforms, and tables by day of a DATE, on real Spark and Iceberg."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.spark.driver.jvm_objects import static_member
from mt_core.tables.upkeep.compaction import compact
from tests.integration.maintained_world import take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LAYOUT = "PARTITIONED BY (city, days(ts), bucket(k, 3), truncate(2, s))"
TRANSFORMED = "k, city, ts, s"
ROWS = """
    (1, 'bern', TIMESTAMP '1969-12-31 23:59:59', 'aaa', 1),
    (2, 'bern', TIMESTAMP '2026-11-27 00:00:00', 'aab', 2),
    (3, NULL, NULL, NULL, 3), (NULL, 'ulm', TIMESTAMP '2026-11-27 23:59:59.999999', 'é😀x', 4),
    (2, 'bern', NULL, '', 5)
"""
MORE = (
    "(7, 'ulm', TIMESTAMP '2026-11-28 00:00:00', 'aac', 6), (2, 'bern', "
    "TIMESTAMP '2026-11-27 00:00:00', 'aab', 7)"
)


def laid_out(world: RefreshWorld, name: str) -> None:
    """Assert that each row is in a file of the partition that Iceberg's own functions give its values."""
    day, bucket, text = "lake.system.days(ts)", "lake.system.bucket(3, k)", "lake.system.truncate(2, s)"
    partition = "_partition.city, _partition.ts_day, _partition.k_bucket, _partition.s_trunc"
    wrong = world.plain(
        f"SELECT {TRANSFORMED}, {partition} FROM {name} "
        f"WHERE NOT (_partition.city <=> city AND _partition.ts_day <=> {day} "
        f"AND _partition.k_bucket <=> {bucket} AND _partition.s_trunc <=> {text})"
    )
    assert wrong == []


def planned(world: RefreshWorld, name: str, day: str) -> tuple[int, int]:
    """Return how many files of a table Iceberg reads for the rows of a day, and how many there are."""
    table = world.contexts.catalogs.load_table(world.table(name).identifier)
    expressions = static_member(world.session, "org.apache.iceberg.expressions.Expressions")
    at = expressions.greaterThanOrEqual("ts", f"{day}T00:00:00+00:00")
    before = expressions.lessThanOrEqual("ts", f"{day}T23:59:59.999999+00:00")
    chosen = table.newScan().filter(expressions.__getattr__("and")(at, before)).planFiles()
    return len(list(chosen.iterator())), len(list(table.newScan().planFiles().iterator()))


QUERIES = {
    "details": "SELECT k, city, ts, s, v FROM o",
    "groups": "SELECT k, city, ts, s, count(*) AS n, sum(v) AS v FROM o GROUP BY k, city, ts, s",
    "medians": "SELECT k, city, ts, s, median(v) AS v FROM o GROUP BY k, city, ts, s",
}
WAYS = {"details": "stages", "groups": "merge", "medians": "stages"}


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True], ids=["written anew", "in place"])
def test_changes_are_applied_to_tables_that_are_laid_out_by_transforms(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    take_tables_for_large(monkeypatch, large, files=False)
    world.spark(
        "CREATE TABLE o (k INT, city STRING, ts TIMESTAMP, s STRING, v INT) USING iceberg",
        f"INSERT INTO o VALUES {ROWS}",
    )
    for name, query in QUERIES.items():
        created = world.create(name, query, clauses=f"{LAYOUT} WITH ('refresh.strategy' = 'incremental')")
        assert created.error is None
        laid_out(world, name)
    files = planned(world, "details", "2026-11-27")
    assert 0 < files[0] < files[1]

    for change in (
        f"INSERT INTO o VALUES {MORE}",
        "UPDATE o SET s = 'bb', k = k + 1 WHERE v IN (2, 3)",
        "DELETE FROM o WHERE v < 3",
    ):
        world.spark(change)
        world.next_point()
        for name, query in QUERIES.items():
            run = world.tick(name, world.clock.now())
            way = "append" if name == "details" and "INSERT" in change else WAYS[name]
            assert (run.error, run.strategy, world.rows(name)) == (None, way, world.plain(query)), change
            laid_out(world, name)
    named = "WHERE city = 'bern' AND ts >= '2026-11-27' AND s LIKE 'a%' AND k = 2"
    assert (
        world.plain(f"SELECT * FROM details {named}")
        == world.plain(f"SELECT * FROM ({QUERIES['details']}) {named}")
        != []
    )
    settings = replace(world.services.settings, compact_small_files=1, compact_delete_files=1)
    compact(replace(world.services, settings=settings), world.table("details"))
    laid_out(world, "details")
    assert world.rows("details") == world.plain(QUERIES["details"])


def test_rows_are_replaced_by_key_in_a_table_that_is_laid_out_by_transforms(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, city STRING, ts TIMESTAMP, s STRING, v INT) USING iceberg",
        f"INSERT INTO o VALUES {ROWS}",
    )
    query = "SELECT k, city, ts, s, median(v) AS v FROM o GROUP BY k, city, ts, s"
    world.create(
        "mt",
        query,
        clauses=f"{LAYOUT} WITH ('refresh.strategy' = 'incremental', 'write.upsert' = 'equality-delete')",
    )
    world.spark(f"INSERT INTO o VALUES {MORE}", "UPDATE o SET s = 'bb', k = k + 1 WHERE v IN (2, 3)")

    run = world.tick("mt")

    assert (run.error, run.strategy, world.rows("mt")) == (None, "stages", world.plain(query))
    laid_out(world, "mt")


@pytest.mark.slow
def test_a_table_by_days_of_a_date_is_refreshed_by_schedule_times_late_rows_and_names(
    world: RefreshWorld,
) -> None:
    world.spark(
        "CREATE TABLE o (ts TIMESTAMP, v INT) USING iceberg",
        "INSERT INTO o VALUES (TIMESTAMP '2026-02-27 23:59:59', 1), (TIMESTAMP '2026-02-28 00:00:00', 2), "
        "(TIMESTAMP '2026-03-01 09:00:00', 3), (NULL, 4)",
    )
    query = "SELECT CAST(ts AS DATE) AS ds, max(ts) AS last, sum(v) AS v FROM o GROUP BY CAST(ts AS DATE)"
    clauses = "PARTITIONED BY (ds, hours(last)) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"
    created = world.create("mt", query, clauses=clauses)
    world.spark(
        "INSERT INTO o VALUES (TIMESTAMP '2026-02-28 12:00:00', 5), (TIMESTAMP '2026-03-01 12:00:00', 6)"
    )

    explained = world.text("EXPLAIN REFRESH mt")
    scheduled = world.tick("mt")

    assert (created.error, scheduled.error) == (None, None)
    assert "late rows in 1 earlier partition: ds=2026-02-28" in f"{explained} {scheduled.reason}"
    assert str(scheduled.scope) == "ds=2026-02-28, ds=2026-03-01"
    assert world.rows("mt") == world.plain(query)
    world.spark("UPDATE o SET v = v + 100")
    before = {row[2] for row in world.rows("mt")}
    for partition, scope in {
        "ds = '2026-02-27'": "ds=2026-02-27",
        "ds >= DATE '2026-02-28' AND ds < '2026-03-01'": "ds=2026-02-28",
        "ds IN ('2026-03-01', NULL)": "ds IS NULL, ds=2026-03-01",
    }.items():
        run_id = world.sql(f"ALTER MATERIALIZED TABLE mt REFRESH PARTITION ({partition})").wait_for
        world.work()
        run = world.run(str(run_id))
        assert (run.error, str(run.scope)) == (None, scope)
    assert world.rows("mt") == world.plain(query)
    assert before.isdisjoint(row[2] for row in world.rows("mt"))
    assert world.sql("VERIFY MATERIALIZED TABLE mt").warnings == ()
    world.spark(
        "DELETE FROM o WHERE ts < '2026-02-28'", "INSERT INTO o VALUES (TIMESTAMP '2026-03-02 01:00:00', 1)"
    )
    assert str(world.tick("mt").scope) == "ds=2026-02-27, ds=2026-03-02"
    assert world.rows("mt") == world.plain(query)
    assert world.refused(
        "CREATE MATERIALIZED TABLE other PARTITIONED BY (days(ts)) WITH "
        "('partition.fields.ts.date-formatter' = 'yyyy-MM-dd') AS SELECT * FROM o",
        DefinitionInvalid,
    ).endswith("add a column to the query, such as CAST(ts AS DATE) AS ds, and PARTITIONED BY (ds).")
