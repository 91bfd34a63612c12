"""A real gateway in a real Prometheus: what it counts agrees with its ledger, after a kill -9 too, and an
alert fires for a table that is late.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from mt_core.base.protocol import Refresh
from mt_core.demo.free_ports import free_port
from tests.installed_tools import tool
from tests.support.gateway.own_process import WAIT_S, GatewayUnderTest, wait_until
from tests.support.promql import families
from tests.support.scrape import Scrape

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
DEPLOYED = ROOT / "deploy" / "prometheus"
RUNBOOK = ROOT / "docs" / "how-to" / "watch-with-prometheus.md"
SECRETS = {"read": "may-read", "admin": "may-do-all"}
SETTINGS = (
    "sql-gateway.security.tokens=prometheus:read:may-read,anna:admin:may-do-all",
    # The table that is late must go on failing.
    "materialized-table.failures.suspend-after=0",
)
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
NAME = "lake.default.counted"
LATE = ("FreshtableTableLate", "firing")
# The table can be late before its first refresh has failed.
FIRED = {LATE, ("FreshtableFailing", "pending")}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    home = tmp_path_factory.mktemp("prometheus") / "home"
    with GatewayUnderTest(home, SETTINGS, token=SECRETS["admin"]) as gateway:
        gateway.start()
        yield gateway


# --------------------------------------------------------------------------------------- counters, and a kill


def test_the_counters_agree_with_the_ledger_when_the_gateway_is_killed_too(gateway: GatewayUnderTest) -> None:
    gateway.sql("CREATE TABLE source AS SELECT 1 AS n")
    gateway.sql(
        "CREATE MATERIALIZED TABLE counted FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
        "AS SELECT 10 / n AS share FROM source"
    )
    statuses = [refreshed(gateway, day=1)]
    for change in ("INSERT INTO source VALUES (0)", "DELETE FROM source WHERE n = 0"):
        gateway.sql(change)
        statuses.append(refreshed(gateway))
    wait_until(lambda: counted(gateway) == in_ledger(gateway), "the counters differ from the ledger")
    before = counted(gateway)

    gateway.sql("INSERT INTO source VALUES (2)")
    gateway.die_before("published", table="counted")
    with gateway.client() as client:
        handle = client.refresh(Refresh(identifier=NAME))
        gateway.wait_death()
    gateway.start()
    run = gateway.wait_ended("counted", handle)

    assert statuses == ["SKIPPED", "FAILED", "SUCCEEDED"]
    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 2)
    # A counter begins at 0 after each start: Prometheus adds what it was before.
    wait_until(lambda: before + counted(gateway) == in_ledger(gateway), "the counters differ from the ledger")
    assert sum(in_ledger(gateway).values()) == 5
    assert scrape(gateway).total("freshtable_refresh_attempts_lost_total", cause="gateway") == 1


def refreshed(gateway: GatewayUnderTest, day: int | None = None) -> str:
    """Refresh the table as a user does, or as its workflow does on a *day* to come. Return the status."""
    time = None if day is None else f"{datetime.now(UTC) + timedelta(days=day):%Y-%m-%d} 00:00:00"
    with gateway.client() as client:
        handle = client.refresh(Refresh(identifier=NAME, is_periodic=time is not None, schedule_time=time))
        return str(gateway.wait_ended("counted", handle)["status"])


def counted(gateway: GatewayUnderTest) -> Counter[tuple[str, ...]]:
    return Counter(scrape(gateway).by("freshtable_refreshes_total", "kind", "outcome", "strategy"))


def in_ledger(gateway: GatewayUnderTest) -> Counter[tuple[str, ...]]:
    return Counter((run["kind"], run["status"], run["strategy"] or "") for run in gateway.runs("counted"))


def scrape(gateway: GatewayUnderTest) -> Scrape:
    headers = {**OPENMETRICS, "Authorization": f"Bearer {SECRETS['read']}"}
    return Scrape.of(
        httpx.get(f"{gateway.url}/metrics", headers=headers, timeout=WAIT_S).raise_for_status().text
    )


# ---------------------------------------------------------------------------------------- an alert that fires


def test_a_table_that_is_late_fires_an_alert_until_a_refresh_succeeds(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    gateway.sql("CREATE TABLE rates AS SELECT 1 AS n")
    gateway.sql(
        "CREATE MATERIALIZED TABLE shares FRESHNESS = INTERVAL '2' SECOND REFRESH_MODE = FULL "
        "AS SELECT 10 / n AS share FROM rates"
    )
    with prometheus(gateway.url, tmp_path) as api:
        wait_until(lambda: up(api) == ["up"], "Prometheus does not scrape the gateway")
        gateway.sql("INSERT INTO rates VALUES (0)")
        wait_until(lambda: states(api) >= FIRED, "no alert fires")
        [late] = [each for each in alerts(api) if (each["labels"]["alertname"], each["state"]) == LATE]
        gateway.sql("DELETE FROM rates WHERE n = 0")
        wait_until(lambda: LATE not in states(api), "the alert goes on firing")
        metrics, loops = values(api, "__name__"), values(api, "loop")

    names = {"table_catalog": "lake", "table_schema": "default", "table_name": "shares"}
    assert late["labels"].items() >= names.items()
    assert late["annotations"]["summary"] == "Table lake.default.shares is late"
    assert {name for name in metrics if name.startswith("freshtable_")} <= set(families())
    # The runbook says what each loop does.
    assert loops <= set(re.findall(r"`([^`\n]+)`", RUNBOOK.read_text(encoding="utf-8")))


@contextmanager
def prometheus(gateway: str, folder: Path) -> Iterator[httpx.Client]:
    """Run Prometheus as it is deployed, but quicker, and yield a client of its API."""
    deployed = {path.name: path.read_text(encoding="utf-8") for path in DEPLOYED.glob("*.yml")}
    quicker = {"localhost:8083": gateway.rpartition("/")[2], "15s": "1s", "for: 30s": "for: 2s"}
    for name, text in deployed.items():
        for slow, quick in quicker.items():
            text = text.replace(slow, quick)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "freshtable-token").write_text(SECRETS["read"], encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": address,
    }
    command = [tool("prometheus"), *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors)
    try:
        with httpx.Client(base_url=f"http://{address}/api/v1", timeout=WAIT_S) as api:
            wait_until(lambda: answers(api) or process.poll() is not None, "Prometheus does not answer")
            assert process.poll() is None, (folder / "stderr.txt").read_text()
            yield api
    finally:
        process.terminate()
        process.wait()


def answers(api: httpx.Client) -> bool:
    try:
        return api.get("/status/runtimeinfo").is_success
    except httpx.TransportError:
        return False


def up(api: httpx.Client) -> list[str]:
    targets = api.get("/targets").raise_for_status().json()["data"]["activeTargets"]
    return [target["health"] for target in targets]


def values(api: httpx.Client, label: str) -> set[str]:
    return set(api.get(f"/label/{label}/values").raise_for_status().json()["data"])


def alerts(api: httpx.Client) -> list[Any]:
    """Return the alerts about the table."""
    found = api.get("/alerts").raise_for_status().json()["data"]["alerts"]
    return [alert for alert in found if alert["labels"].get("table_name") == "shares"]


def states(api: httpx.Client) -> set[tuple[str, str]]:
    """Return the name and the state of each alert about the table."""
    return {(alert["labels"]["alertname"], alert["state"]) for alert in alerts(api)}
