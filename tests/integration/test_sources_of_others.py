"""Continuous tables over sources that others write: PyIceberg, and plain Spark SQL in another process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from mt_core.spark.jars import default_jars_dir, jar_conf
from tests.class_archive import jvm_options
from tests.integration.follower import Follower
from tests.integration.follower import follower as follower
from tests.integration.outside_spark import outside_spark
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCHEMA = pa.schema([("city", pa.string()), ("amount", pa.int32())])
QUERIES = {
    "dear": "SELECT city, amount FROM orders WHERE amount > 1",
    "totals": "SELECT city, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY city",
}


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
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)

    def table() -> Table:
        return catalog.load_table(f"{follower.world.namespace}.orders")

    check_step(follower, lambda: table().append(orders(("Bern", 7), (None, 8))), "append", "merge")
    check_step(follower, lambda: table().delete("city = 'Rome'"), "signed", "merge")
    check_step(follower, lambda: table().overwrite(orders(("Oslo", 9), ("Rome", 5))), "signed", "merge")
    check_step(follower, lambda: table().append(orders(("Bern", 1), ("Rome", 6))), "append", "merge")


@pytest.mark.slow
def test_what_plain_spark_in_another_process_appends_deletes_and_overwrites_is_applied(follower: Follower) -> None:
    for name, query in QUERIES.items():
        follower.follow(name, query)
    conf = {
        key: value
        for key, value in follower.world.session.sparkContext.getConf().getAll()
        if key.startswith(("spark.sql.catalog.", "spark.sql.extensions"))
    }
    conf |= {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    conf |= {"spark.driver.extraJavaOptions": jvm_options()}
    conf |= jar_conf(default_jars_dir(os.environ), {})
    source = f"lake.{follower.world.namespace}.orders"

    with outside_spark(conf) as spark:
        check_step(follower, lambda: spark(f"INSERT INTO {source} VALUES ('Bern', 7), (NULL, 8)"), "append", "merge")
        check_step(follower, lambda: spark(f"DELETE FROM {source} WHERE city = 'Rome'"), "signed", "merge")
        overwrite = f"INSERT OVERWRITE {source} VALUES ('Oslo', 9), ('Rome', 5)"
        check_step(follower, lambda: spark(overwrite), "signed", "merge")
