"""Tables over tables, refreshed by the in-memory scheduler of a real gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateway.own_process import GatewayUnderTest, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

OPTIONS = "WITH ('materialized-table.upstream-wait' = '1 min') FRESHNESS = INTERVAL '2' SECOND REFRESH_MODE = FULL"


def times(gateway: GatewayUnderTest, table: str) -> dict[object, tuple[str, str]]:
    """Return begin and end of the scheduled refreshes that are done, by their schedule times."""
    runs = [run for run in gateway.runs(table) if run["kind"] == "PERIODIC"]
    done = [run for run in runs if run["status"] in ("SUCCEEDED", "SKIPPED")]
    return {run["schedule time"]: (run["started at"], run["finished at"]) for run in done}


def test_two_tables_agree_after_each_schedule_time(tmp_path: Path) -> None:
    with GatewayUnderTest(tmp_path / "home") as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE orders (city STRING, amount INT)")
        gateway.sql("INSERT INTO orders VALUES ('Rome', 1)")
        gateway.sql(
            f"CREATE MATERIALIZED TABLE totals {OPTIONS} AS SELECT city, sum(amount) AS amount FROM orders GROUP BY city"
        )
        gateway.sql("CREATE VIEW seen AS SELECT * FROM totals")
        gateway.sql(f"CREATE MATERIALIZED TABLE best {OPTIONS} AS SELECT max(amount) AS amount FROM seen")
        gateway.sql("INSERT INTO orders VALUES ('Rome', 10)")
        seen = len(times(gateway, "best"))
        wait_until(lambda: len(times(gateway, "best")) > seen + 1, "a refresh of both")
        low, high = times(gateway, "totals"), times(gateway, "best")
        best = gateway.sql("SELECT amount FROM best")

    both = low.keys() & high.keys()
    assert len(both) >= 2
    assert all(high[point][0] >= low[point][1] for point in both), (low, high)
    assert best == [{"amount": 11}]
