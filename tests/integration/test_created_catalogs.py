"""A created catalog on a real gateway: sessions, refreshes in the background, restarts and a lost Spark all know it."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.errors import GatewayError
from tests.support.gateway.own_process import START_S, GatewayUnderTest, alive, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
SECRET = "hidden-4711"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path / "home") as gateway:
        gateway.start()
        yield gateway


def options(folder: Path) -> str:
    """An Iceberg catalog that can hold materialized tables, with a password that its database does not ask for."""
    return (
        f"'type' = 'iceberg', 'catalog-type' = 'jdbc', 'uri' = 'jdbc:sqlite:file:{folder}/second.db', "
        f"'jdbc.schema-version' = 'V1', 'jdbc.password' = '{SECRET}', 'warehouse' = '{folder}/second'"
    )


def totals(gateway: GatewayUnderTest) -> int:
    return int(gateway.sql("SELECT max(n) AS n FROM second.d.totals")[0]["n"])


def answers(gateway: GatewayUnderTest) -> bool:
    try:
        return gateway.sql("SELECT 1 AS one") == [{"one": 1}]
    except GatewayError:
        return False


def test_a_created_catalog_is_used_by_scheduled_refreshes_and_outlives_gateway_and_spark(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    with gateway.client() as earlier:
        earlier.execute("SELECT 1")
        gateway.sql(f"CREATE CATALOG second WITH ({options(tmp_path)})")
        for statement in ("CREATE NAMESPACE second.d", "CREATE TABLE second.d.t (a INT)"):
            list(earlier.pages(earlier.execute(statement)))
    gateway.sql("INSERT INTO second.d.t VALUES (1)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE second.d.totals FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL "
        "AS SELECT count(*) AS n FROM second.d.t"
    )
    gateway.sql("INSERT INTO second.d.t VALUES (2)")
    wait_until(lambda: totals(gateway) == 2, "no scheduled refresh read from the catalog")

    gateway.stop()
    gateway.start()
    gateway.sql("INSERT INTO second.d.t VALUES (3)")
    wait_until(lambda: totals(gateway) == 3, "no scheduled refresh knew the catalog after a restart")

    spark = gateway.jvm_pid
    os.kill(spark, signal.SIGKILL)
    wait_until(lambda: not alive(spark), "the JVM was not killed")
    wait_until(lambda: answers(gateway), "Spark did not come back", START_S)
    gateway.sql("INSERT INTO second.d.t VALUES (4)")
    wait_until(lambda: totals(gateway) == 4, "no scheduled refresh knew the catalog after Spark was lost")

    with pytest.raises(GatewayError, match=r"cannot be dropped: second\.d\.totals lives in it"):
        gateway.sql("DROP CATALOG second")
    with sqlite3.connect(gateway.home / "registry.db") as registry:
        [(body,)] = registry.execute("SELECT body FROM materialized_tables").fetchall()
        assert registry.execute("SELECT name FROM catalogs").fetchall() == [("second",)]
    assert SECRET not in body
    said = [path.read_text(errors="replace") for path in gateway.home.rglob("*") if path.suffix in {".txt", ".log"}]
    assert SECRET not in "".join(said)
    gateway.sql("DROP MATERIALIZED TABLE second.d.totals")
    gateway.sql("DROP CATALOG second")
    with pytest.raises(GatewayError, match="second"):
        gateway.sql("SELECT * FROM second.d.t")
