from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mt_core.errors import QueryFailed
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.tables.services import query_of
from mt_core.tables.settings import InitialRefresh
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.marks import last_run_of

pytestmark = pytest.mark.spark

BY_DAY = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"


@pytest.fixture
def orders(world: RefreshWorld) -> RefreshWorld:
    """A world with a source of two days."""
    world.spark(
        "CREATE TABLE orders (ds STRING, k INT, v STRING) USING iceberg",
        "INSERT INTO orders VALUES ('2026-03-01', 1, 'a'), ('2026-03-02', 2, 'b')",
    )
    return world


def verdict(run: RefreshRun) -> tuple[RunStatus, str | None]:
    return run.status, run.reason


def why(run: RefreshRun) -> str:
    return (run.reason or "").partition("; ")[0]


def refreshed(world: RefreshWorld, name: str, query: str, run: RefreshRun) -> str:
    """Assert that the run refreshed the table to what its query gives now;
    return why, without how it was computed.
    """
    assert run.status is RunStatus.SUCCEEDED, run.error
    assert world.rows(name) == world.plain(query)
    return why(run)


SKIPPED = (RunStatus.SKIPPED, "sources unchanged")

# ---------------------------------------------------------------------------------------- what may be skipped


def test_unchanged_sources_are_skipped_and_nothing_is_written(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")
    before = orders.engine.metadata.load(orders.table("mt").identifier)

    run = orders.tick("mt")

    after = orders.engine.metadata.load(orders.table("mt").identifier)
    assert verdict(run) == SKIPPED
    assert (run.rows, run.snapshot_id, run.decision) == (None, None, "skip")
    assert (after.main, after.branches, last_run_of(after)) == (before.main, {}, last_run_of(before))


def test_compaction_of_a_source_is_still_skipped(orders: RefreshWorld) -> None:
    orders.spark("INSERT INTO orders VALUES ('2026-03-02', 3, 'c')")
    orders.create("mt", "SELECT * FROM orders")

    orders.spark(
        f"CALL lake.system.rewrite_data_files(table => '{orders.namespace}.orders', "
        "options => map('rewrite-all', 'true'))"
    )

    assert ("replace",) in orders.plain(f"SELECT operation FROM {orders.namespace}.orders.snapshots")
    assert verdict(orders.tick("mt")) == SKIPPED


def test_compaction_of_a_source_is_a_change_for_a_query_that_reads_where_its_rows_are(
    orders: RefreshWorld,
) -> None:
    query = "SELECT _file AS f, count(*) AS n FROM orders GROUP BY _file"
    orders.spark("INSERT INTO orders VALUES ('2026-03-02', 3, 'c')")
    orders.create("mt", query)

    orders.spark(
        f"CALL lake.system.rewrite_data_files(table => '{orders.namespace}.orders', "
        "options => map('rewrite-all', 'true'))"
    )

    why_refreshed = refreshed(orders, "mt", query, orders.tick("mt"))
    assert why_refreshed == "the query is not stable: the metadata column _file"
    assert [row[1] for row in orders.rows("mt")] == [3]


UNSTABLE = "the query is not stable: TIMESTAMP AS OF"
# The source at a version, and what refreshes do after commits to its main and a branch,
# and after its tag was moved.
AT_VERSIONS = {
    "a snapshot": ("orders VERSION AS OF {first}", "skipped", "skipped"),
    "a tag": ("orders VERSION AS OF 'a tag'", "skipped", "changed"),
    "a branch": ("orders VERSION AS OF 'audit'", "changed", "skipped"),
    "the name of a branch": ("lake.{namespace}.orders.branch_audit", "changed", "changed"),
    "a time": ("orders TIMESTAMP AS OF '2100-01-01'", UNSTABLE, UNSTABLE),
    "a snapshot beside the newest": (
        "orders JOIN orders VERSION AS OF {first} f USING (k)",
        "changed",
        "skipped",
    ),
}


def test_a_query_at_a_version_of_a_source_is_refreshed_when_it_would_give_other_rows(
    orders: RefreshWorld,
) -> None:
    [[first]] = orders.plain(f"SELECT snapshot_id FROM lake.{orders.namespace}.orders.snapshots")
    orders.spark("ALTER TABLE orders CREATE TAG `a tag`", "ALTER TABLE orders CREATE BRANCH audit")
    sources = [source.format(first=first, namespace=orders.namespace) for source, *_ in AT_VERSIONS.values()]
    queries = {
        f"mt_{n}": f"SELECT k, count(*) AS n FROM {source} GROUP BY k" for n, source in enumerate(sources)
    }
    for name, query in queries.items():
        orders.create(name, query)

    def look() -> list[str | None]:
        return [
            *orders.engine.sources.source_fingerprints(
                [query_of(orders.table(name).definition) for name in queries]
            )
        ]

    def outcome(name: str, run: RefreshRun) -> str:
        said = "skipped" if verdict(run) == SKIPPED else refreshed(orders, name, queries[name], run)
        return said if said in ("skipped", UNSTABLE) else said.split()[-1]

    outcomes, seen = [], [look(), look()]
    for changes in (
        ("orders", f"lake.{orders.namespace}.orders.branch_audit"),
        ("ALTER TABLE orders CREATE OR REPLACE TAG `a tag`",),
    ):
        orders.spark(
            *(
                each if " " in each else f"INSERT INTO {each} VALUES ('2026-03-01', 1, 'e')"
                for each in changes
            )
        )
        seen.append(look())
        point = orders.next_point()
        outcomes.append([outcome(name, orders.tick(name, point)) for name in queries])

    expected = [list(each) for each in zip(*(said for _, *said in AT_VERSIONS.values()), strict=True)]
    assert dict(zip(AT_VERSIONS, zip(*outcomes, strict=True), strict=True)) == {
        kind: tuple(said) for kind, (_, *said) in AT_VERSIONS.items()
    }
    # What the look-out for CONTINUOUS tables sees changes with the rows.
    looked = [
        [
            UNSTABLE if now is None else "changed" if now != then else "skipped"
            for then, now in zip(*both, strict=True)
        ]
        for both in pairwise(seen)
    ]
    assert looked == [looked[0], *expected]
    shown = orders.sql("SHOW MATERIALIZED TABLES").rows.page(0, 9)  # type: ignore[union-attr]
    assert [row[:5] for row in shown] == [
        [name, f"lake.{orders.namespace}", "FULL", "1 day", "ACTIVATED"] for name in queries
    ]
    for name in queries:
        rows = orders.sql(f"DESCRIBE EXTENDED {name}").rows.page(0, 99)  # type: ignore[union-attr]
        described = {row[0]: row[1] for row in rows}
        assert described["sources"].startswith(f"lake.{orders.namespace}.orders")


def test_compaction_of_the_table_itself_is_still_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")

    orders.spark(
        f"CALL lake.system.rewrite_data_files(table => '{orders.namespace}.mt', "
        "options => map('rewrite-all', 'true'))"
    )

    assert verdict(orders.tick("mt")) == SKIPPED


def test_another_commit_of_the_same_rows_is_not_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")

    orders.spark("INSERT OVERWRITE orders SELECT * FROM orders")

    assert (
        refreshed(orders, "mt", "TABLE orders", orders.tick("mt"))
        == f"lake.{orders.namespace}.orders changed"
    )


# -------------------------------------------------------------------------------------- what is never skipped


def test_a_new_partition_at_unchanged_sources_is_refreshed(spark_driver: SparkDriver) -> None:
    world = RefreshWorld(spark_driver, initial_refresh=InitialRefresh.NONE)
    world.spark("CREATE TABLE orders USING iceberg AS SELECT '2026-03-02' AS ds, 2 AS k")
    world.sql(
        f"CREATE MATERIALIZED TABLE mt {BY_DAY} FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT * FROM orders"
    )

    first, second, third = world.tick("mt"), world.tick("mt"), world.tick("mt")

    new = (RunStatus.SUCCEEDED, "new partition")
    assert [verdict(run) for run in (first, second, third)] == [new, new, new]
    assert [str(run.scope) for run in (first, second, third)] == [
        "ds=2026-03-01",
        "ds=2026-03-02",
        "ds=2026-03-03",
    ]
    assert [run.vector for run in (first, second, third)] == [first.vector] * 3
    assert world.rows("mt") == [("2026-03-02", 2)]


def test_each_partition_is_judged_by_what_last_wrote_it(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses=BY_DAY)
    orders.spark("INSERT INTO orders VALUES ('2026-03-01', 9, 'late')")

    first = orders.tick("mt")
    again = orders.refresh("mt", ds="2026-03-02")
    second = orders.tick("mt")

    assert refreshed(orders, "mt", "TABLE orders", first) == f"lake.{orders.namespace}.orders changed"
    assert str(first.scope) == "ds=2026-03-01"
    assert again.reason == "requested manually"
    assert verdict(second) == SKIPPED


def test_a_whole_table_refreshed_in_parts_is_refreshed_again(orders: RefreshWorld) -> None:
    query = "SELECT * FROM orders"
    orders.create("mt", query, clauses="PARTITIONED BY (ds)")
    orders.refresh("mt", ds="2026-03-01")

    run = orders.tick("mt")

    assert refreshed(orders, "mt", query, run) == "refreshed in parts since"
    assert verdict(orders.tick("mt")) == SKIPPED


def test_another_query_is_not_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")

    orders.sql("ALTER MATERIALIZED TABLE mt AS SELECT ds, k + 1 AS k, v FROM orders")
    orders.work()

    assert refreshed(orders, "mt", "SELECT ds, k + 1, v FROM orders", orders.runs("mt")[-1]) == (
        "the definition or its options changed"
    )
    assert verdict(orders.tick("mt")) == SKIPPED


def test_what_changed_while_suspended_is_refreshed_after_resume(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses=BY_DAY)
    orders.sql("ALTER MATERIALIZED TABLE mt SUSPEND")
    orders.sql("ALTER MATERIALIZED TABLE mt AS SELECT ds, -k AS k, v FROM orders")
    orders.sql("ALTER MATERIALIZED TABLE mt RESUME")

    tick = orders.tick("mt")

    rebuild = orders.runs("mt")[1]
    assert (
        refreshed(orders, "mt", "SELECT ds, -k, v FROM orders", rebuild)
        == "the definition or its options changed"
    )
    assert rebuild.scope.whole
    assert verdict(tick) == SKIPPED


def test_options_of_resume_that_change_no_row_refresh_nothing(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses=BY_DAY)
    orders.sql("ALTER MATERIALIZED TABLE mt SUSPEND")
    orders.sql("ALTER MATERIALIZED TABLE mt RESUME WITH ('write.target-file-size-bytes' = '1048576')")

    tick = orders.tick("mt")

    assert verdict(tick) == SKIPPED
    assert len(orders.runs("mt")) == 2


def test_a_replaced_view_is_not_skipped(orders: RefreshWorld) -> None:
    orders.spark("CREATE VIEW big AS SELECT * FROM orders WHERE k > 1")
    orders.create("mt", "SELECT * FROM big")

    orders.spark("CREATE OR REPLACE VIEW big AS SELECT * FROM orders WHERE k > 0")

    assert (
        refreshed(orders, "mt", "TABLE orders", orders.tick("mt")) == f"lake.{orders.namespace}.big changed"
    )
    assert verdict(orders.tick("mt")) == SKIPPED


def test_a_replaced_view_below_a_view_is_not_skipped(orders: RefreshWorld) -> None:
    orders.spark(
        "CREATE VIEW inner_view AS SELECT * FROM orders WHERE k > 1",
        "CREATE VIEW outer_view AS SELECT ds, k, upper(v) AS v FROM inner_view",
    )
    orders.create("mt", "SELECT * FROM outer_view")

    orders.spark("CREATE OR REPLACE VIEW inner_view AS SELECT * FROM orders WHERE k < 2")

    assert (
        refreshed(orders, "mt", "TABLE outer_view", orders.tick("mt"))
        == f"lake.{orders.namespace}.inner_view changed"
    )
    assert verdict(orders.tick("mt")) == SKIPPED


def test_a_source_rolled_back_is_not_skipped(orders: RefreshWorld) -> None:
    snapshot = orders.plain(f"SELECT snapshot_id FROM {orders.namespace}.orders.snapshots")[0][0]
    orders.spark("INSERT INTO orders VALUES ('2026-03-03', 3, 'c')")
    orders.create("mt", "SELECT * FROM orders")

    orders.spark(f"CALL lake.system.rollback_to_snapshot('{orders.namespace}.orders', {snapshot})")

    assert (
        refreshed(orders, "mt", "TABLE orders", orders.tick("mt"))
        == f"lake.{orders.namespace}.orders changed"
    )
    assert len(orders.rows("mt")) == 2


def test_a_source_rolled_back_to_what_was_read_is_skipped(orders: RefreshWorld) -> None:
    snapshot = orders.plain(f"SELECT snapshot_id FROM {orders.namespace}.orders.snapshots")[0][0]
    orders.create("mt", "SELECT * FROM orders")
    orders.spark("INSERT INTO orders VALUES ('2026-03-03', 3, 'c')")

    orders.spark(f"CALL lake.system.rollback_to_snapshot('{orders.namespace}.orders', {snapshot})")

    assert verdict(orders.tick("mt")) == SKIPPED
    assert orders.rows("mt") == orders.plain("TABLE orders")


def test_a_query_that_can_change_by_itself_is_never_skipped(orders: RefreshWorld) -> None:
    orders.spark("CREATE VIEW restless AS SELECT *, current_timestamp() AS at FROM orders")
    queries = {
        "current_date()": "SELECT *, current_date() AS today FROM orders",
        "rand()": "SELECT *, rand() AS luck FROM orders",
        "now()": "SELECT * FROM orders WHERE ds < date_format(now(), 'yyyy-MM-dd')",
        "current_timestamp()": "SELECT * FROM restless",
    }
    for number, query in enumerate(queries.values()):
        orders.create(f"mt_{number}", query)
    point = orders.next_point()

    runs = [orders.tick(f"mt_{number}", point) for number in range(len(queries))]

    assert [verdict(run) for run in runs] == [
        (RunStatus.SUCCEEDED, f"the query is not stable: {reason}") for reason in queries
    ]


def test_a_temporary_function_is_refused(orders: RefreshWorld) -> None:
    orders.session.udf.register("twice", lambda number: 2 * number, "int")

    message = orders.refused(
        "CREATE MATERIALIZED TABLE mt REFRESH_MODE = FULL AS SELECT twice(k) AS k FROM orders", QueryFailed
    )

    assert "twice" in message
    assert "do not see temporary views, functions" in message


def test_rows_written_by_somebody_else_are_not_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")

    orders.spark("INSERT INTO mt VALUES ('2026-03-01', 666, 'foreign')")

    run = orders.tick("mt")
    assert refreshed(orders, "mt", "TABLE orders", run).startswith("another writer committed snapshot ")
    assert verdict(orders.tick("mt")) == SKIPPED


def test_rows_deleted_by_somebody_else_are_not_skipped_in_their_partition(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses=BY_DAY)
    orders.spark("DELETE FROM mt WHERE ds = '2026-03-01'")

    run = orders.tick("mt")

    assert refreshed(orders, "mt", "TABLE orders", run).startswith("another writer committed snapshot ")
    assert verdict(orders.refresh("mt", ds="2026-03-01"))[0] is RunStatus.SUCCEEDED


def test_a_table_rolled_back_by_somebody_else_is_judged_by_what_it_holds(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")
    old = orders.run(orders.runs("mt")[0].run_id).snapshot_id
    orders.spark("INSERT INTO orders VALUES ('2026-03-03', 3, 'c')")
    orders.tick("mt")

    orders.spark(f"CALL lake.system.rollback_to_snapshot('{orders.namespace}.mt', {old})")

    assert (
        refreshed(orders, "mt", "TABLE orders", orders.tick("mt"))
        == f"lake.{orders.namespace}.orders changed"
    )


def test_an_expired_ancestor_is_not_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses=BY_DAY)
    orders.refresh("mt", ds="2026-03-02")

    orders.spark(
        f"CALL lake.system.expire_snapshots(table => '{orders.namespace}.mt', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )

    run = orders.tick("mt")
    assert str(run.scope) == "ds=2026-03-01"
    assert (
        refreshed(orders, "mt", "TABLE orders", run) == "its last refresh is no longer in the table's history"
    )
    again = orders.tick("mt")
    assert (again.status, why(again)) == SKIPPED


def test_a_new_column_below_a_star_stays_out_until_the_table_is_altered(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")
    columns = orders.columns("mt")

    orders.spark("ALTER TABLE orders ADD COLUMN note STRING")

    assert verdict(orders.tick("mt")) == SKIPPED
    assert orders.rows("mt") == orders.plain("SELECT ds, k, v FROM orders")
    assert orders.columns("mt") == columns
    orders.sql("ALTER MATERIALIZED TABLE mt AS SELECT * FROM orders")
    orders.work()
    assert orders.rows("mt") == orders.plain("TABLE orders")
    assert orders.columns("mt")[-1] == ("note", "string")


def test_a_source_made_again_with_the_same_rows_is_not_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")
    rows = orders.plain("TABLE orders")

    orders.spark(
        "CREATE TABLE copied USING iceberg AS SELECT * FROM orders",
        "DROP TABLE orders",
        "CREATE TABLE orders USING iceberg AS SELECT * FROM copied",
    )

    run = orders.tick("mt")
    assert orders.rows("mt") == rows
    assert refreshed(orders, "mt", "TABLE orders", run) == f"lake.{orders.namespace}.orders changed"
    assert verdict(orders.tick("mt")) == SKIPPED


def test_a_source_replaced_in_place_is_not_skipped(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")

    orders.spark(
        "CREATE OR REPLACE TABLE orders USING iceberg AS SELECT '2026-03-09' AS ds, 9 AS k, 'z' AS v"
    )

    assert (
        refreshed(orders, "mt", "TABLE orders", orders.tick("mt"))
        == f"lake.{orders.namespace}.orders changed"
    )


def test_files_by_path_are_never_skipped(orders: RefreshWorld, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    orders.spark(f"INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT * FROM orders")
    orders.create("mt", f"SELECT * FROM parquet.`{folder}`")

    unchanged = orders.tick("mt")
    orders.spark(f"INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT * FROM orders WHERE k = 1")
    changed = orders.tick("mt")

    reason = f"source parquet.`{folder}` has no versions"
    assert verdict(unchanged) == verdict(changed) == (RunStatus.SUCCEEDED, reason)
    assert orders.rows("mt") == [("2026-03-01", 1, "a")]


def test_a_table_over_a_materialized_table_follows_it_and_then_skips(orders: RefreshWorld) -> None:
    orders.create("first_mt", "SELECT * FROM orders")
    orders.create("second_mt", "SELECT count(*) AS n FROM first_mt")
    orders.tick("first_mt")
    skipped = orders.tick("second_mt", orders.clock.now())
    orders.spark("INSERT INTO orders VALUES ('2026-03-03', 3, 'c')")

    orders.tick("first_mt")
    run = orders.tick("second_mt", orders.clock.now())

    assert verdict(skipped) == SKIPPED
    assert (run.status, why(run)) == (RunStatus.SUCCEEDED, f"lake.{orders.namespace}.first_mt changed")
    assert orders.rows("second_mt") == [(3,)]
    orders.tick("first_mt")
    assert verdict(orders.tick("second_mt", orders.clock.now())) == SKIPPED
