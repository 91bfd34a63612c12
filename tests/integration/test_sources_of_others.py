"""Continuous tables over sources that others write: PyIceberg, plain Spark SQL in another process,
Flink's upserts, branches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from mt_core.spark.driver.jars import default_jars_dir, jar_conf
from tests.class_archive import jvm_options
from tests.depth import DEPTH
from tests.integration.follower import Follower
from tests.integration.follower import follower as follower
from tests.integration.maintained_world import MERGE_ON_READ
from tests.integration.outside_spark import outside_spark
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.upsert_writer import UpsertWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA = pa.schema([("city", pa.string()), ("amount", pa.int32())])
QUERIES = {
    "dear": "SELECT city, amount FROM orders WHERE amount > 1",
    "totals": "SELECT city, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY city",
}
APPENDED, CHANGED = ("append", "merge"), ("stages", "merge")
BY_CITY = ("PARTITIONED BY (city)", f"'format-version' = '2', {MERGE_ON_READ}")
"""How a source is stored: its partitions and its properties."""


def follow_stored(follower: Follower, partitions: str, properties: str) -> None:
    """Create the source anew, stored in another way, and the tables that follow it."""
    follower.world.spark(
        "DROP TABLE orders",
        f"CREATE TABLE orders (city STRING, amount INT) USING iceberg {partitions} "
        f"TBLPROPERTIES ({properties})",
        "INSERT INTO orders VALUES ('Rome', 1), ('Rome', 2), ('Oslo', 3), (NULL, 4)",
    )
    for name, query in QUERIES.items():
        follower.follow(name, query)


def check_step(follower: Follower, work: Callable[[], object], dear: str, totals: str) -> None:
    """Let another writer work; the tables then show the rows, got in these ways."""
    before = {name: len(follower.strategies(name)) for name in QUERIES}

    work()
    follower.step()

    for name, query in QUERIES.items():
        assert follower.world.rows(name) == follower.world.plain(query)
    ways = {name: follower.strategies(name)[before[name] :] for name in QUERIES}
    assert ways == {"dear": [dear], "totals": [totals]}


def test_what_pyiceberg_appends_deletes_and_overwrites_is_applied(follower: Follower) -> None:
    for name, query in QUERIES.items():
        follower.follow(name, query)
    uri = follower.world.session.conf.get("spark.sql.catalog.lake.uri")
    database = re.fullmatch(r"jdbc:sqlite:file:([^?]*).*", str(uri))
    if database is None:
        pytest.skip("the catalog of this run is no SQLite file")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{database[1]}", init_catalog_tables="false")

    def orders(*rows: tuple[str | None, int]) -> pa.Table:
        return pa.Table.from_pylist(
            [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
        )

    def table() -> Table:
        return catalog.load_table(f"{follower.world.namespace}.orders")

    check_step(follower, lambda: table().append(orders(("Bern", 7), (None, 8))), *APPENDED)
    check_step(follower, lambda: table().delete("city = 'Rome'"), *CHANGED)
    check_step(follower, lambda: table().overwrite(orders(("Oslo", 9), ("Rome", 5))), *CHANGED)
    check_step(follower, lambda: table().append(orders(("Bern", 1), ("Rome", 6))), *APPENDED)


def test_what_plain_spark_in_another_process_appends_deletes_and_overwrites_is_applied(
    follower: Follower,
) -> None:
    for name, query in QUERIES.items():
        follower.follow(name, query)
    conf = {
        key: value
        for key, value in follower.world.session.sparkContext.getConf().getAll()
        # Others have none of our classes.
        if key.startswith(("spark.sql.catalog.", "spark.sql.extensions"))
        and not value.startswith("freshtable.")
    }
    conf |= {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    conf |= {"spark.driver.extraJavaOptions": jvm_options()}
    conf |= jar_conf(default_jars_dir(os.environ), {})
    source = f"lake.{follower.world.namespace}.orders"

    with outside_spark(conf) as spark:
        check_step(follower, lambda: spark(f"INSERT INTO {source} VALUES ('Bern', 7), (NULL, 8)"), *APPENDED)
        check_step(follower, lambda: spark(f"DELETE FROM {source} WHERE city = 'Rome'"), *CHANGED)
        overwrite = f"INSERT OVERWRITE {source} VALUES ('Oslo', 9), ('Rome', 5)"
        check_step(follower, lambda: spark(overwrite), *CHANGED)


@pytest.mark.parametrize(
    ("partitions", "properties"),
    [
        pytest.param(*BY_CITY, id="in partitions"),
        *([pytest.param("", "'format-version' = '2'", id="whole")] if DEPTH > 1 else []),
    ],
)
def test_what_flink_upserts_and_deletes_by_key_is_applied(
    follower: Follower, partitions: str, properties: str
) -> None:
    follow_stored(follower, partitions, properties)
    writer = UpsertWriter(follower.world, "orders", key="city")
    table = f"table => '{follower.world.namespace}.orders', options => map('rewrite-all', 'true')"

    def after_compaction() -> None:
        follower.world.spark(f"CALL lake.system.rewrite_data_files({table})")
        writer.commit({"Rome": 6, "Kiew": 7})
        writer.commit({"Rome": 8})

    check_step(follower, lambda: writer.commit({"Rome": 7, "Bern": 8, "Oslo": None}), *CHANGED)
    check_step(follower, lambda: writer.commit({"Bern": None}), *CHANGED)
    assert writer.deletes() == 4
    check_step(follower, after_compaction, *CHANGED)
    check_step(follower, lambda: follower.world.spark("DELETE FROM orders WHERE amount > 7"), *CHANGED)
    assert follower.differences(*QUERIES) == {}


def test_what_is_written_to_a_branch_is_applied_when_it_is_published(follower: Follower) -> None:
    partitions, properties = BY_CITY
    follow_stored(follower, partitions, f"{properties}, 'write.wap.enabled' = 'true'")
    world, table = follower.world, f"'{follower.world.namespace}.orders'"

    def publish(
        conf: str, value: str, procedure: str, *statements: str, meanwhile: Sequence[str] = ()
    ) -> None:
        before = {name: follower.strategies(name) for name in QUERIES}
        write_aside(world, conf, value, *statements)
        follower.step()
        assert {name: follower.strategies(name) for name in QUERIES} == before
        world.spark(*meanwhile, f"CALL lake.system.{procedure}")

    forward = f"fast_forward({table}, 'main', 'audit')"
    rows = "INSERT INTO orders VALUES ('Bern', 7), (NULL, 8)"
    changes = (
        "UPDATE orders SET amount = amount + 1 WHERE city = 'Rome'",
        "DELETE FROM orders WHERE amount = 8",
        rows,
    )
    check_step(follower, lambda: publish("branch", "audit", forward, rows), *APPENDED)
    check_step(follower, lambda: publish("branch", "audit", forward, *changes), *CHANGED)
    # A version beside main is put on top of what came meanwhile.
    one, two = (f"publish_changes({table}, '{name}')" for name in ("one", "two"))
    check_step(follower, lambda: publish("id", "one", one, rows, meanwhile=[rows]), *APPENDED)
    changed = "UPDATE orders SET amount = 9 WHERE amount = 7"
    check_step(follower, lambda: publish("id", "two", two, changed), *CHANGED)
    # What main got since the branch was made is gone.
    world.spark("ALTER TABLE orders CREATE OR REPLACE BRANCH audit")
    check_step(follower, lambda: world.spark("INSERT INTO orders VALUES ('Oslo', 5)"), *APPENDED)
    stale = f"set_current_snapshot(table => {table}, ref => 'audit')"
    check_step(follower, lambda: publish("branch", "audit", stale, rows), *CHANGED)
    assert follower.differences(*QUERIES) == {}


def write_aside(world: RefreshWorld, conf: str, value: str, *statements: str) -> None:
    """Execute statements as a writer that writes, audits and publishes: their rows are not in main."""
    session = world.session.newSession()
    session.sql(f"USE lake.{world.namespace}")
    session.conf.set(f"spark.wap.{conf}", value)
    for text in statements:
        session.sql(text)
