"""Tables of refresh mode CONTINUOUS over real Spark: what they show after each batch, through chains,
kills and other writers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from mt_core.errors import GatewayError
from mt_core.model.run import RunStatus
from mt_core.spark.driver.failures import SPARK_ERRORS
from tests.depth import DEPTH, dice, rounds
from tests.integration.follower import Follower
from tests.integration.follower import follower as follower
from tests.integration.refresh_world import world as world
from tests.support.gateway.own_process import GatewayUnderTest, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROUNDS = rounds(1, 5)
BY_CITY = "SELECT city, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY city"


def test_appended_rows_are_added_or_merged_and_a_table_over_tables_follows(follower: Follower) -> None:
    follower.follow("dear", "SELECT city, amount FROM orders WHERE amount > 1")
    follower.follow("totals", BY_CITY)
    follower.follow(
        "top", "SELECT t.city, t.amount, d.amount AS one FROM totals t JOIN dear d ON t.city = d.city"
    )

    for amount in (5, 6):
        follower.step(f"INSERT INTO orders VALUES ('Rome', {amount}), ('Bern', {amount})")

        for name, query in (("dear", "SELECT * FROM orders WHERE amount > 1"), ("totals", BY_CITY)):
            assert follower.world.rows(name) == follower.world.plain(query)
        joined = "SELECT t.city, t.amount, d.amount FROM totals t JOIN dear d ON t.city = d.city"
        assert follower.world.rows("top") == follower.world.plain(joined)
    assert (follower.strategies("dear"), follower.strategies("totals")) == (["append"] * 2, ["merge"] * 2)

    compacted = f"table => '{follower.world.namespace}.dear', options => map('rewrite-all', 'true')"
    follower.step(
        f"CALL lake.system.rewrite_data_files({compacted})", "INSERT INTO orders VALUES ('Bern', 8)"
    )

    assert follower.world.rows("dear") == follower.world.plain("SELECT * FROM orders WHERE amount > 1")
    assert follower.strategies("dear") == ["append"] * 3


def test_a_view_that_is_replaced_is_followed(follower: Follower) -> None:
    follower.world.spark("CREATE VIEW v AS SELECT city, amount FROM orders")
    follower.follow("seen", "SELECT * FROM v")

    follower.step("CREATE OR REPLACE VIEW v AS SELECT city, amount + 1 AS amount FROM orders")

    assert follower.world.rows("seen") == follower.world.plain("SELECT city, amount + 1 FROM orders")


def test_a_source_that_is_dropped_fails_and_one_that_comes_back_is_followed(follower: Follower) -> None:
    follower.follow("totals", BY_CITY)
    follower.step("DROP TABLE orders")
    (row,) = [
        dict(zip([column.name for column in rows.columns], row, strict=True))
        for rows in [follower.world.sql("SHOW MATERIALIZED TABLES").rows]
        if rows is not None
        for row in rows.page(0, 10)
    ]
    # Two looks at the sources have failed, so the freshness of ten seconds has passed.
    assert (row["health"], "orders" in str(row["last error"])) == ("LATE", True)

    follower.step(
        "CREATE TABLE orders (city STRING, amount INT) USING iceberg", "INSERT INTO orders VALUES ('Oslo', 9)"
    )
    follower.step()

    assert follower.world.rows("totals") == [("Oslo", 1, 9)]


@pytest.mark.parametrize("has_checksum", [True, False])
def test_a_torn_metadata_file_is_named_at_once_and_stops_the_tables_over_it_alone(
    follower: Follower, has_checksum: bool
) -> None:
    world = follower.world
    world.spark("CREATE TABLE items (city STRING) USING iceberg", "INSERT INTO items VALUES ('Rome')")
    follower.follow("totals", BY_CITY)
    follower.follow("names", "SELECT city FROM items")
    # The look-out has not read this commit.
    world.spark("INSERT INTO items VALUES ('Oslo')")
    (file,) = world.session.sql(
        f"SELECT file FROM lake.{world.namespace}.items.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    ).collect()[0]
    path = Path(file.removeprefix("file:"))
    checksum = path.with_name(f".{path.name}.crc")
    whole, checked, began = path.read_bytes(), checksum.read_bytes(), time.monotonic()

    path.write_bytes(whole[:900])
    if not has_checksum:
        checksum.unlink()
    follower.step("INSERT INTO orders VALUES ('Oslo', 9)")
    totals, expected = world.rows("totals"), world.plain(BY_CITY)
    with pytest.raises(SPARK_ERRORS) as touched:
        world.plain("SELECT * FROM items")
    took_s = time.monotonic() - began
    path.write_bytes(whole)
    checksum.write_bytes(checked)
    failed = [run for run in world.runs("names") if run.status is RunStatus.FAILED]
    world.clock.advance(timedelta(minutes=5))
    follower.step()
    follower.step("INSERT INTO items VALUES ('Bern')")

    assert totals == expected
    assert took_s < 60, "Iceberg reads a damaged metadata file for 93 seconds"
    assert path.name in str(touched.value)
    assert "Restore the file" in str(touched.value)
    assert failed, [(run.status, run.error, run.reason) for run in world.runs("names")]
    assert path.name in (failed[0].error or "")
    assert world.rows("names") == [("Bern",), ("Oslo",), ("Rome",)]


@contextmanager
def a_writer_that_never_stops(gateway: GatewayUnderTest) -> Iterator[None]:
    """Insert rows through the gateway whenever it answers, until the end of the block."""
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            with suppress(GatewayError, OSError):
                gateway.sql(f"INSERT INTO orders VALUES ('Rome', {number}), (NULL, {number % 7})")
            time.sleep(0.1)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(120)


def saved_and_stopped(gateway: GatewayUnderTest, table: str) -> object:
    """Stop the continuous refresh of a table; return the savepoint that answers."""
    [job] = [job for job in gateway.sql("SHOW JOBS") if table in str(job["job name"])]
    [saved] = gateway.sql(f"STOP JOB '{job['job id']}' WITH SAVEPOINT")
    return saved["savepoint path"]


@pytest.mark.slow
@pytest.mark.timeout(900 * DEPTH)
def test_kills_suspends_and_changes_of_mode_at_random_lose_and_double_nothing(tmp_path: Path) -> None:
    gateway, chance = GatewayUnderTest(tmp_path / "home"), dice(20260306)
    with gateway:
        gateway.start()
        gateway.sql("CREATE TABLE orders (city STRING, amount INT)")
        gateway.sql("INSERT INTO orders VALUES ('Rome', 1)")
        gateway.sql(
            "CREATE MATERIALIZED TABLE dear FRESHNESS = INTERVAL '1' SECOND AS SELECT * "
            "FROM orders WHERE amount > 1"
        )
        gateway.sql(f"CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '1' SECOND AS {BY_CITY}")
        chain = "SELECT count(*) AS n, sum(amount) AS amount FROM dear"
        gateway.sql(f"CREATE MATERIALIZED TABLE whole FRESHNESS = INTERVAL '1' SECOND AS {chain}")
        with a_writer_that_never_stops(gateway):
            # By this seed: a suspended table, then a change of mode, then a kill.
            for _ in range(ROUNDS):
                for _ in range(2):
                    time.sleep(chance.uniform(1, 3))
                    match chance.randrange(3):
                        case 0:
                            gateway.sql("ALTER MATERIALIZED TABLE totals SUSPEND")
                            gateway.sql("ALTER MATERIALIZED TABLE totals RESUME")
                        case 1:
                            gateway.sql("ALTER MATERIALIZED TABLE dear SET REFRESH_MODE = FULL")
                            gateway.sql("ALTER MATERIALIZED TABLE dear SET REFRESH_MODE = CONTINUOUS")
                        case _:
                            gateway.sql("ALTER MATERIALIZED TABLE dear REFRESH")
                    time.sleep(chance.uniform(0, 2))
                gateway.kill()
                gateway.start()

        queries = {"totals": BY_CITY, "dear": "SELECT * FROM orders WHERE amount > 1", "whole": chain}

        def all_right() -> bool:
            return all(
                sorted(map(str, gateway.sql(f"SELECT * FROM {name}"))) == sorted(map(str, gateway.sql(query)))
                for name, query in queries.items()
            )

        wait_until(all_right, "a table does not show what its query gives")
        version = f"totals VERSION AS OF {saved_and_stopped(gateway, 'totals')}"
        of_savepoint, now = (gateway.sql(f"SELECT * FROM {each}") for each in (version, "totals"))
        assert sorted(map(str, of_savepoint)) == sorted(map(str, now))
        stretches = [run for name in queries for run in gateway.runs(name) if run["kind"] == "CONTINUOUS"]
        assert {run["status"] for run in stretches} <= {"SUCCEEDED", "SKIPPED", "CANCELED", "RUNNING"}, (
            stretches
        )
