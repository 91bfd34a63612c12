"""kill -9 of the JVM under a running gateway: clear errors, no lost run, and Spark comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.client.http import GatewayClient, Refresh
from tests.integration.lost_run import MASTER, create_kept, lost_run
from tests.support.gateway.own_process import GatewayUnderTest, Row, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("jvm") / "home", [MASTER]) as gateway:
        gateway.start()
        create_kept(gateway)
        yield gateway


# CI has `staged`, in test_restarts.py; the gateway itself is killed after a run is on main, in test_kill.py.
@pytest.mark.parametrize("step", ["write", "publish: commit", "published"])
def test_a_run_that_loses_spark_is_published_once_and_the_sessions_beside_it_go_on(
    gateway: GatewayUnderTest, step: str, tmp_path: Path
) -> None:
    story = lost_run(gateway, step, tmp_path)

    next(story)
    gateway.wait_for_spark()
    next(story)


def test_a_jvm_killed_while_it_writes_loses_no_run(gateway: GatewayUnderTest) -> None:
    gateway.sql(
        "CREATE MATERIALIZED TABLE heavy FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT s.n, count(*) AS pairs FROM source s JOIN (SELECT a.id FROM range(0, 8000) a "
        "JOIN range(0, 1000) b ON a.id % 7 <= b.id % 11) GROUP BY s.n"
    )
    gateway.sql("INSERT INTO source VALUES (2)")
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.heavy"))
        wait_until(lambda: _writes(gateway.run("heavy", handle)), "the refresh did not begin")
        gateway.lose_spark()
        run = gateway.wait_ended("heavy", handle)

    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 2)
    assert gateway.published("heavy", handle) == 1
    wanted = gateway.sql("SELECT DISTINCT n FROM source ORDER BY n")
    assert gateway.sql("SELECT n FROM heavy ORDER BY n") == wanted
    assert {"n": 2} in wanted


def _writes(run: Row) -> bool:
    """Whether it has decided: what follows is the open, and then the long write."""
    return run["status"] == "RUNNING" and run["decision"] == "refresh"
