"""Functions on a real gateway: sessions, refreshes, views, restarts and a lost Spark all know them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mt_core.errors import GatewayError
from mt_core.protocol import Refresh
from tests.support.function_code import function_jar, greeting
from tests.support.gateway.own_process import START_S, GatewayUnderTest, alive, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path / "home") as gateway:
        gateway.start()
        yield gateway


def greetings(gateway: GatewayUnderTest) -> list[Any]:
    return [row["word"] for row in gateway.sql("SELECT word FROM greetings ORDER BY word")]


def answers(gateway: GatewayUnderTest) -> bool:
    try:
        return gateway.sql("SELECT 1 AS one") == [{"one": 1}]
    except GatewayError:
        return False


def refreshed(gateway: GatewayUnderTest, day: int) -> str:
    """Refresh the table as its workflow does on a day to come, and return the status of the refresh."""
    time = f"{datetime.now(UTC) + timedelta(days=day):%Y-%m-%d} 00:00:00"
    with gateway.client() as client:
        handle = client.refresh(Refresh(identifier="lake.default.greetings", is_periodic=True, schedule_time=time))
    return str(gateway.wait_ended("greetings", handle)["status"])


def test_functions_are_called_by_refreshes_and_outlive_gateway_and_spark(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    jar, other = (
        function_jar(tmp_path, "a.jar", **greeting("hello")),
        function_jar(tmp_path, "b.jar", **greeting("ciao")),
    )
    gateway.sql(f"CREATE FUNCTION greet DETERMINISTIC AS 'shop.Greet' USING JAR '{jar}'")
    gateway.sql("CREATE FUNCTION plus(x INT) RETURN x + 1")
    gateway.sql("CREATE TABLE numbers (n INT)")
    gateway.sql("INSERT INTO numbers VALUES (1)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE greetings FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
        "AS SELECT greet(plus(n)) AS word FROM numbers"
    )
    wait_until(lambda: greetings(gateway) == ["hello2"], "the first refresh did not call the functions")

    unchanged = refreshed(gateway, 1)
    gateway.sql("CREATE OR REPLACE FUNCTION plus(x INT) RETURN x + 10")
    after_sql = refreshed(gateway, 2), greetings(gateway)
    gateway.sql(f"CREATE OR REPLACE FUNCTION greet DETERMINISTIC AS 'shop.Greet' USING JAR '{other}'")
    after_jar = refreshed(gateway, 3), greetings(gateway)

    assert unchanged == "SKIPPED"
    assert after_sql == ("SUCCEEDED", ["hello11"])
    assert after_jar == ("SUCCEEDED", ["ciao11"])
    with pytest.raises(
        GatewayError, match=r"greet cannot be dropped: materialized table lake\.default\.greetings uses it"
    ):
        gateway.sql("DROP FUNCTION greet")

    other.unlink()
    gateway.stop()
    gateway.start()
    assert gateway.sql("SELECT greet(plus(1)) AS word") == [{"word": "ciao11"}]
    assert refreshed(gateway, 4) == "SKIPPED"

    spark = gateway.jvm_pid
    os.kill(spark, signal.SIGKILL)
    wait_until(lambda: not alive(spark), "the JVM was not killed")
    wait_until(lambda: answers(gateway), "Spark did not come back", START_S)
    gateway.sql("INSERT INTO numbers VALUES (2)")
    assert (refreshed(gateway, 5), greetings(gateway)) == ("SUCCEEDED", ["ciao11", "ciao12"])
    names = {row["function name"] for row in gateway.sql("SHOW USER FUNCTIONS")}
    assert {"greet", "plus"} <= names
