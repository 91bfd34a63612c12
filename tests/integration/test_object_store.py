"""A gateway with its tables, checkpoints and savepoints on S3, by settings and `freshtable jars add s3a`.

CI has the story of a stream, which writes files both by Iceberg and by Spark, with a catalog in a database.
`make test-deep` has a story of each kind of table, with a REST catalog too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from mt_core.base.protocol import Refresh
from mt_core.demo.object_store import TABLE_BUCKET
from mt_core.errors import GatewayError
from mt_core.spark.driver.jars import JARS_VARIABLE
from tests.depth import DEPTH
from tests.installed_tools import STORE_VENV
from tests.object_store import ObjectStore, store_jars
from tests.support.gateway.own_process import GatewayUnderTest, Row, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DEEP = pytest.mark.skipif(DEPTH == 1, reason="CI has the story of a stream with a catalog in a database")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A gateway, and the folder of the store with the files of its tables."""

    gateway: GatewayUnderTest
    store: ObjectStore
    warehouse: str
    is_served: bool

    def files(self, table: str) -> list[str]:
        """Return the files of a table, whose folder has its name."""
        return [name for name in self.store.names(self.warehouse) if table in name]


def settings_on(store: ObjectStore, catalog: str) -> list[str]:
    """Return the settings of a gateway with everything on the store."""
    place = f"{store.bucket}/{catalog}"
    if catalog == "jdbc":
        options = {"warehouse": f"s3://{place}/warehouse", **store.file_options}
        # The gateway chooses the catalog's way to files by itself.
        del options["io-impl"]
    else:
        options = store.rest_options
    of_lake = ("type", "uri", "warehouse")
    settings = {
        **{f"catalog.{'' if key in of_lake else 'options.'}{key}": value for key, value in options.items()},
        "execution.checkpointing.dir": f"s3a://{place}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"s3a://{place}/savepoints",
        **store.hadoop_options,
    }
    return [f"{key}={value}" for key, value in settings.items()]


@pytest.fixture(scope="module", params=["jdbc", pytest.param("rest", marks=DEEP)])
def lake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, object_store: ObjectStore
) -> Iterator[Lake]:
    catalog: str = request.param
    warehouse = f"{object_store.bucket}/jdbc/warehouse" if catalog == "jdbc" else TABLE_BUCKET
    home = tmp_path_factory.mktemp("gateway") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(JARS_VARIABLE, str(store_jars(os.environ)))
        with GatewayUnderTest(home, settings_on(object_store, catalog)) as gateway:
            gateway.start()
            yield Lake(gateway=gateway, store=object_store, warehouse=warehouse, is_served=catalog == "rest")


def test_a_streaming_insert_goes_on_from_a_savepoint_on_s3(lake: Lake) -> None:
    gateway = lake.gateway
    gateway.sql("CREATE TABLE flights (number INT)")
    gateway.sql("CREATE TABLE arrivals (number INT)")
    gateway.sql("INSERT INTO flights VALUES (1), (2)")

    first = begin_stream(gateway)
    wait_arrived(gateway, 1, 2)
    [stopped] = gateway.sql(f"STOP JOB '{first}' WITH SAVEPOINT")
    gateway.sql("INSERT INTO flights VALUES (3)")
    second = begin_stream(gateway, savepoint=stopped["savepoint path"])
    wait_arrived(gateway, 1, 2, 3)
    gateway.sql("INSERT INTO flights VALUES (4)")
    gateway.kill()
    gateway.start()
    wait_arrived(gateway, 1, 2, 3, 4)
    saved = lake.store.names(str(stopped["savepoint path"]).removeprefix("s3a://"))
    gateway.sql(f"STOP JOB '{second}'")
    gateway.sql("DROP TABLE arrivals PURGE")

    assert saved
    assert gateway.sql("SELECT count(*) AS n FROM flights") == [{"n": 4}]
    assert lake.files("flights") != []
    assert lake.files("arrivals") == []


def begin_stream(gateway: GatewayUnderTest, savepoint: str = "") -> str:
    with gateway.client() as client:
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        if savepoint:
            rows_of(client, f"SET 'execution.savepoint.path' = '{savepoint}'")
        [answer] = rows_of(client, "INSERT INTO arrivals SELECT * FROM flights")
    return str(answer["job id"])


def wait_arrived(gateway: GatewayUnderTest, *numbers: int) -> None:
    def arrived() -> list[int]:
        return sorted(row["number"] for row in gateway.sql("SELECT number FROM arrivals"))

    wait_until(lambda: len(arrived()) >= len(numbers), "rows are missing")
    assert arrived() == list(numbers)


@DEEP
def test_a_partition_is_refreshed_on_s3(lake: Lake) -> None:
    gateway = lake.gateway
    gateway.sql("CREATE TABLE sales (region STRING, amount INT)")
    gateway.sql("INSERT INTO sales VALUES ('north', 1), ('south', 2)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE totals PARTITIONED BY (region) FRESHNESS = INTERVAL '1' DAY "
        "REFRESH_MODE = FULL AS SELECT region, sum(amount) AS amount FROM sales GROUP BY region"
    )

    gateway.sql("INSERT INTO sales VALUES ('north', 10), ('south', 20)")
    gateway.sql("ALTER MATERIALIZED TABLE totals REFRESH PARTITION (region = 'north')")
    refreshed = gateway.sql("SELECT * FROM totals ORDER BY region")
    gateway.sql("ALTER MATERIALIZED TABLE totals REFRESH")

    assert refreshed == [{"region": "north", "amount": 11}, {"region": "south", "amount": 2}]
    assert amounts(gateway, "totals") == [11, 22]


def amounts(gateway: GatewayUnderTest, table: str) -> list[int]:
    return sorted(row["amount"] for row in gateway.sql(f"SELECT amount FROM {table}"))


@DEEP
def test_changes_are_computed_on_s3(lake: Lake) -> None:
    gateway = lake.gateway
    gateway.sql("CREATE TABLE orders (city STRING, amount INT)")
    gateway.sql("INSERT INTO orders VALUES ('Rome', 1), ('Oslo', 2)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE cities WITH ('refresh.strategy' = 'incremental') FRESHNESS = "
        "INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT city, sum(amount) AS amount FROM orders GROUP BY city"
    )

    statuses = []
    for change in ("INSERT INTO orders VALUES ('Rome', 4)", "DELETE FROM orders WHERE city = 'Oslo'"):
        gateway.sql(change)
        statuses.append(refreshed_when_due(gateway, "cities")["status"])
    rows = amounts(gateway, "cities")
    gateway.sql("DROP MATERIALIZED TABLE cities")

    assert (statuses, rows) == (["SUCCEEDED", "SUCCEEDED"], [5])
    assert lake.files("cities") == []


def refreshed_when_due(gateway: GatewayUnderTest, table: str) -> Row:
    """Refresh a table as its workflow does, and return its run."""
    time = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    with gateway.client() as client:
        due = Refresh(identifier=f"lake.default.{table}", is_periodic=True, schedule_time=time)
        return gateway.wait_ended(table, client.refresh(due))


@DEEP
def test_a_continuous_table_follows_its_source_on_s3(lake: Lake) -> None:
    gateway = lake.gateway
    gateway.sql("CREATE TABLE clicks (amount INT)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE followed FRESHNESS = INTERVAL '2' SECOND REFRESH_MODE = CONTINUOUS "
        "AS SELECT amount FROM clicks WHERE amount > 1"
    )

    for amount in (1, 2, 3):
        gateway.sql(f"INSERT INTO clicks VALUES ({amount})")
    wait_until(lambda: amounts(gateway, "followed") == [2, 3], "the table does not follow")
    gateway.kill()
    gateway.start()
    gateway.sql("INSERT INTO clicks VALUES (4)")

    wait_until(lambda: amounts(gateway, "followed") == [2, 3, 4], "the table does not go on")
    gateway.sql("DROP MATERIALIZED TABLE followed")


@DEEP
def test_a_create_table_as_that_fails_leaves_nothing_on_s3(lake: Lake) -> None:
    gateway = lake.gateway
    broken = "SELECT id, IF(id = 99000, raise_error('broken'), 'x') AS x FROM range(0, 100000, 1, 2)"

    with pytest.raises(GatewayError, match="broken"):
        gateway.sql(f"CREATE TABLE half AS {broken}")

    assert "half" not in [row["table name"] for row in gateway.sql("SHOW TABLES")]
    # What a REST server itself staged for a table that was never created is its own to remove.
    assert [name for name in lake.files("half") if not lake.is_served or "/data/" in name] == []


@DEEP
@pytest.mark.timeout(900)
def test_the_demo_passes_every_check_on_a_store_with_a_rest_catalog() -> None:
    path = os.pathsep.join([str(STORE_VENV / "bin"), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, JARS_VARIABLE: str(store_jars(os.environ))}
    demo = [sys.executable, "-m", "mt_core", "demo", "--catalog", "rest"]

    ended = subprocess.run(demo, env=environ, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "15 daily partitions, none missing" in ended.stdout
