from __future__ import annotations

from pathlib import Path

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.refresh_world import RefreshWorld, Row, in_order
from tests.integration.refresh_world import world as world

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(world: RefreshWorld) -> RefreshWorld:
    """A world with a source of two days, three hours and rows without either."""
    world.spark(
        "CREATE TABLE orders (ds STRING, hh STRING, k INT, v STRING) USING iceberg PARTITIONED BY (ds)",
        "INSERT INTO orders VALUES ('d1', '00', 1, 'a'), ('d1', '01', 2, 'b'), ('d2', '00', 3, 'c'), "
        "(NULL, NULL, 4, 'n')",
    )
    return world


def succeeded(run: RefreshRun) -> RefreshRun:
    assert run.status is RunStatus.SUCCEEDED, run.error
    return run


# ----------------------------------------------------------------------------- sources that move during a run

QUERIES = {
    "a self-join": "SELECT a.ds, a.hh, a.k, b.v FROM orders a LEFT JOIN orders b ON a.k = b.k + 1",
    "a CTE named like a table": (
        "WITH orders AS (SELECT ds, hh, k * 10 AS k, v FROM orders) SELECT * FROM orders "
        "UNION ALL SELECT * FROM big"
    ),
    "a nested view": "SELECT * FROM biggest WHERE EXISTS (SELECT 1 FROM big WHERE big.k = biggest.k)",
    "another spelling": "SELECT DS, Hh, `K`, Orders.V FROM lake.{namespace}.orders",
}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(query, id=name, marks=() if name == "a nested view" else pytest.mark.slow)
        for name, query in QUERIES.items()
    ],
)
def test_a_commit_during_a_run_is_not_in_its_result(orders: RefreshWorld, query: str) -> None:
    orders.spark(
        "CREATE VIEW big AS SELECT * FROM orders WHERE k > 1",
        "CREATE VIEW biggest AS WITH big AS (SELECT * FROM big) SELECT ds, hh, k + 1 AS k, v FROM big",
    )
    text = query.format(namespace=orders.namespace)
    orders.create("mt", text, clauses="PARTITIONED BY (ds, hh)")
    orders.spark("INSERT INTO orders VALUES ('d1', '00', 5, 'e')")
    expected, vector = orders.plain(text), orders.vector("mt").to_json()
    run_id = orders.request("mt")

    orders.work(
        before="write", do=lambda: orders.spark("INSERT OVERWRITE orders VALUES ('d1', '00', 6, 'late')")
    )

    run = succeeded(orders.run(run_id))
    assert orders.rows("mt") == expected
    assert (run.vector, run.pinned) == (vector, True)
    assert orders.plain(text) != expected


# A source that was dropped cannot be read at its old version any more.
DROPPED = "the source is made again"
CHANGES = {
    "a column is added": ["ALTER TABLE orders ADD COLUMN note STRING"],
    "a column is dropped": ["ALTER TABLE orders DROP COLUMN extra"],
    "a column is dropped and added": [
        "ALTER TABLE orders DROP COLUMN v",
        "ALTER TABLE orders ADD COLUMN v STRING",
    ],
    "a column gets another name": [
        "ALTER TABLE orders RENAME COLUMN v TO old_v",
        "ALTER TABLE orders RENAME COLUMN extra TO v",
    ],
    "a view is replaced": ["CREATE OR REPLACE VIEW shown AS SELECT ds, hh, -k AS k, v FROM orders"],
    "a view below is replaced": ["CREATE OR REPLACE VIEW chosen AS SELECT * FROM orders WHERE k = 1"],
    DROPPED: [
        "CREATE TABLE spare USING iceberg AS SELECT ds, hh, k + 100 AS k, v, extra FROM orders",
        "DROP TABLE orders",
        "ALTER TABLE spare RENAME TO orders",
    ],
}

# `make test` has a change of the columns of the source, and one of a view.
NOT_SLOW = ("a column is dropped and added", "a view below is replaced")
# Of columns that the query does not read.
UNREAD = ("a column is added", "a column is dropped")


def query_of_views(orders: RefreshWorld) -> str:
    """Return a query over views of a source with a column more than they show."""
    orders.spark(
        "ALTER TABLE orders ADD COLUMN extra STRING",
        "INSERT INTO orders VALUES ('d3', '02', 5, 'e', 'x')",
        "CREATE VIEW chosen AS SELECT ds, hh, k, v FROM orders",
        "CREATE VIEW shown AS SELECT ds, hh, k, v FROM chosen",
    )
    return "SELECT * FROM shown WHERE k <> 2"


@pytest.mark.parametrize(
    "change",
    [pytest.param(change, marks=() if change in NOT_SLOW else pytest.mark.slow) for change in CHANGES],
)
def test_a_run_during_which_its_sources_change_shape_reads_what_it_recorded_and_the_next_one_the_change(
    orders: RefreshWorld, change: str
) -> None:
    query = query_of_views(orders)
    orders.create("mt", query, clauses="PARTITIONED BY (ds)")
    early = (orders.vector("mt").to_json(), orders.plain(query))
    run_id = orders.request("mt")

    orders.work(before="write", do=lambda: orders.spark(*CHANGES[change]))

    late = (orders.vector("mt").to_json(), orders.plain(query))
    has_late = change == DROPPED
    assert (succeeded(orders.run(run_id)).vector, orders.rows("mt")) == (late if has_late else early)
    assert early[0] != late[0]

    run = orders.tick("mt")

    assert orders.rows("mt") == late[1]
    assert (run.reason == "sources unchanged") == (has_late or change in UNREAD), run.error


def test_a_source_that_was_made_again_between_refreshes_is_read_as_it_is(orders: RefreshWorld) -> None:
    query = query_of_views(orders)
    orders.create("mt", query, clauses="PARTITIONED BY (ds)")
    orders.spark(*CHANGES[DROPPED])

    run = orders.tick("mt")

    assert orders.rows("mt") == orders.plain(query)
    assert succeeded(run).reason != "sources unchanged"


def test_a_run_whose_source_version_expires_before_it_is_read_begins_again(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders")
    run_id = orders.request("mt")

    orders.work(
        before="write",
        do=lambda: orders.spark(
            "INSERT OVERWRITE orders VALUES ('d1', '00', 6, 'late')",
            f"CALL lake.system.expire_snapshots(table => '{orders.namespace}.orders', "
            "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
        ),
    )

    assert succeeded(orders.run(run_id)).vector == orders.vector("mt").to_json()
    assert orders.rows("mt") == orders.plain("TABLE orders")


# ------------------------------------------------------------------------------------------------- partitions


def test_a_partial_spec_on_two_columns_refreshes_just_its_partitions(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds, hh)")
    orders.spark("UPDATE orders SET v = upper(v)")

    run = succeeded(orders.refresh("mt", hh="00"))

    assert (str(run.scope), run.rows) == ("hh=00", 2)
    assert orders.rows("mt") == in_order(
        [("d1", "00", 1, "A"), ("d1", "01", 2, "b"), ("d2", "00", 3, "C"), (None, None, 4, "n")]
    )


def test_several_partitions_are_refreshed_beside_rows_whose_partition_is_null(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds, hh)")
    orders.spark("INSERT INTO orders VALUES ('d1', CAST(NULL AS STRING), 5, 'e')")
    succeeded(orders.refresh("mt"))
    orders.spark("UPDATE orders SET v = upper(v)")

    (first, *_) = [orders.request("mt", hh=hh) for hh in ("00", "01")]
    orders.work()

    run = succeeded(orders.run(first))
    assert str(run.scope) == "hh=00, hh=01"
    assert orders.rows("mt") == in_order(
        [
            ("d1", "00", 1, "A"),
            ("d1", "01", 2, "B"),
            ("d2", "00", 3, "C"),
            (None, None, 4, "n"),
            ("d1", None, 5, "e"),
        ]
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_year_of_partitions_is_refreshed_at_once(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE days USING iceberg AS SELECT 'day ' || id AS ds, CAST(id AS INT) AS k FROM range(370)"
    )
    world.create("mt", "SELECT * FROM days", clauses="PARTITIONED BY (ds)")
    world.spark("INSERT OVERWRITE days SELECT ds, -k FROM days")

    (first, *_) = [world.request("mt", ds=f"day {number}") for number in range(366)]
    world.work()

    run = succeeded(world.run(first))
    assert run.rows == 366
    expected = [(f"day {number}", -number if number < 366 else number) for number in range(370)]
    assert world.rows("mt") == in_order(expected)


def test_a_partition_whose_source_rows_all_went_away_becomes_empty(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds)")
    orders.spark("DELETE FROM orders WHERE ds = 'd1'", "INSERT INTO orders VALUES ('d2', '09', 9, 'i')")

    run = succeeded(orders.refresh("mt", ds="d1"))

    assert run.rows == 0
    assert orders.rows("mt") == in_order([("d2", "00", 3, "c"), (None, None, 4, "n")])


def test_all_rows_of_all_sources_may_go_away(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds)")
    orders.create("flat", "SELECT ds, count(*) AS n FROM orders GROUP BY ds")
    orders.spark("DELETE FROM orders")

    succeeded(orders.refresh("mt"))
    succeeded(orders.refresh("flat"))

    assert (orders.rows("mt"), orders.rows("flat")) == ([], [])


def test_sources_that_were_always_empty_give_an_empty_table(world: RefreshWorld) -> None:
    world.spark("CREATE TABLE nothing (ds STRING, k INT) USING iceberg")
    first = succeeded(world.create("mt", "SELECT * FROM nothing", clauses="PARTITIONED BY (ds)"))
    world.create("counted", "SELECT count(*) AS n FROM nothing")

    skipped = world.tick("mt")
    world.spark("INSERT INTO nothing VALUES ('d1', 1)")
    second = world.tick("mt")

    assert first.rows == 0
    assert skipped.status is RunStatus.SKIPPED
    assert succeeded(second).rows == 1
    assert (world.rows("mt"), world.rows("counted")) == ([("d1", 1)], [(0,)])


def test_an_empty_source_that_gets_rows_during_a_run_is_read_as_recorded(world: RefreshWorld) -> None:
    world.spark("CREATE TABLE nothing (ds STRING, k INT) USING iceberg")
    world.create("mt", "SELECT * FROM nothing")
    early, run_id = world.vector("mt").to_json(), world.request("mt")

    world.work(before="write", do=lambda: world.spark("INSERT INTO nothing VALUES ('d1', 1)"))

    run = succeeded(world.run(run_id))
    assert (run.vector, run.pinned, world.rows("mt")) == (early, True, [])
    assert succeeded(world.tick("mt")).vector == world.vector("mt").to_json()
    assert world.rows("mt") == [("d1", 1)]


VALUES = [
    "it's",
    'a "b"',
    "a/b",
    "a=b",
    "Größe 表 😀",
    "",
    " x ",
    "%41",
    "a\\b",
    "back`tick",
    "__HIVE_DEFAULT_PARTITION__",
    "null",
]


def test_partitions_of_any_value_are_refreshed_alone(world: RefreshWorld) -> None:
    world.spark("CREATE TABLE odd (`d s` STRING, `k``1` INT) USING iceberg")
    rows = [(value, number) for number, value in enumerate(VALUES)]
    insert(world, "odd", rows)
    world.create("mt", "SELECT * FROM odd", clauses="PARTITIONED BY (`d s`)")
    world.spark("UPDATE odd SET `k``1` = `k``1` + 100")

    for value in VALUES[:-1:2]:
        world.request("mt", **{"d s": value})
    world.work()

    refreshed = set(VALUES[:-1:2])
    assert world.rows("mt") == in_order((value, k + 100 if value in refreshed else k) for value, k in rows)
    assert world.runs("mt")[1].rows == len(refreshed)


def test_rows_without_a_partition_value_are_written_with_the_whole_table_only(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds, hh)")
    orders.spark("UPDATE orders SET k = k + 10")

    succeeded(orders.refresh("mt", ds="d1"))
    partly = orders.rows("mt")
    succeeded(orders.refresh("mt"))

    assert [row for row in partly if row[0] is None] == [(None, None, 4, "n")]
    assert orders.rows("mt") == orders.plain("TABLE orders")


def test_a_partition_column_in_another_case_is_the_same_column(orders: RefreshWorld) -> None:
    orders.create(
        "mt",
        "SELECT DS AS Ds, k FROM ORDERS_VIEW".replace("ORDERS_VIEW", "orders"),
        clauses="PARTITIONED BY (dS)",
    )
    orders.spark("UPDATE orders SET k = k + 10")

    run = succeeded(orders.refresh("mt", DS="d1"))

    assert str(run.scope) == "Ds=d1"
    assert orders.rows("mt") == in_order([("d1", 11), ("d1", 12), ("d2", 3), (None, 4)])


def test_rows_are_cast_to_the_declared_types(orders: RefreshWorld) -> None:
    query = "SELECT ds, CAST(k AS TINYINT) AS k, k * 1.5 AS x FROM orders"
    orders.create("mt (ds STRING, k BIGINT, x DECIMAL(30,6))", query, clauses="PARTITIONED BY (ds)")
    orders.spark("INSERT INTO orders VALUES ('d1', '09', 100, 'z')")

    succeeded(orders.refresh("mt", ds="d1"))

    assert orders.rows("mt") == orders.plain(
        "SELECT ds, CAST(k AS BIGINT), CAST(k * 1.5 AS DECIMAL(30,6)) FROM orders"
    )


def test_a_foreign_commit_during_a_partition_run_survives_outside_its_partitions(
    orders: RefreshWorld,
) -> None:
    orders.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds)")
    orders.spark("UPDATE orders SET v = upper(v)")
    run_id = orders.request("mt", ds="d1")

    orders.work(
        before="publish: read",
        do=lambda: orders.spark("INSERT INTO mt VALUES ('d1', '', 0, 'x'), ('d9', '', 0, 'x')"),
    )

    succeeded(orders.run(run_id))
    assert orders.rows("mt") == in_order(
        [
            ("d1", "00", 1, "A"),
            ("d1", "01", 2, "B"),
            ("d2", "00", 3, "c"),
            (None, None, 4, "n"),
            ("d9", "", 0, "x"),
        ]
    )


def test_a_refresh_that_fails_half_way_leaves_the_old_rows(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT ds, 10 DIV (k - 9) AS d FROM orders", clauses="PARTITIONED BY (ds)")
    before = orders.rows("mt")
    orders.spark("INSERT INTO orders VALUES ('d1', '00', 9, 'z')")

    run = orders.refresh("mt")

    metadata = orders.engine.metadata.load(orders.table("mt").identifier)
    assert run.status is RunStatus.FAILED
    assert "DIVIDE_BY_ZERO" in (run.error or "")
    assert orders.rows("mt") == before
    assert metadata.branches == {}
    assert succeeded(orders.refresh("mt", ds="d2")).rows == 1


def insert(world: RefreshWorld, table: str, rows: list[Row]) -> None:
    """Append *rows* without spelling their values in SQL."""
    world.session.createDataFrame(rows, world.session.table(table).schema).writeTo(table).append()


def test_a_registry_in_a_database_keeps_the_same_results(spark_driver: SparkDriver, tmp_path: Path) -> None:
    from mt_core.registry.store import SqlRegistry

    registry = SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db")
    world = RefreshWorld(spark_driver, registry=registry)
    world.spark("CREATE TABLE orders USING iceberg AS SELECT 'd1' AS ds, 1 AS k")
    world.create("mt", "SELECT * FROM orders", clauses="PARTITIONED BY (ds)")
    world.spark("INSERT INTO orders VALUES ('d1', 2), ('d2', 3)")

    run = succeeded(world.refresh("mt", ds="d1"))
    skipped = world.tick("mt")

    assert (run.rows, run.pinned, run.vector) == (2, True, world.vector("mt").to_json())
    assert skipped.status is RunStatus.SUCCEEDED
    assert world.rows("mt") == world.plain("TABLE orders")
    registry.close()
