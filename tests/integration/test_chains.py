"""Tables over tables in a real gateway: refreshed by the in-memory scheduler, and kept in CONTINUOUS mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.depth import DEPTH
from tests.support.gateway.own_process import GatewayUnderTest, wait_until

DEEP = pytest.mark.skipif(DEPTH == 1, reason="CI has test_tables_over_tables.py, which waits for no clock")
pytestmark = [pytest.mark.spark, pytest.mark.slow, DEEP, pytest.mark.timeout(600)]

CHAIN = {
    "one": "SELECT city, amount FROM orders WHERE amount > 1",
    "two": "SELECT city, amount, amount * 2 AS twice FROM one",
    "three": "SELECT city, count(*) AS n, sum(twice) AS twice FROM two GROUP BY city",
    "four": "SELECT city, n, twice FROM three WHERE n > 0",
    "five": "SELECT n, count(*) AS cities, sum(twice) AS twice FROM four GROUP BY n",
}
LAST = (
    f"WITH {', '.join(f'{name} AS ({query})' for name, query in CHAIN.items())} SELECT * "
    "FROM five ORDER BY ALL"
)
CHANGES = (
    "INSERT INTO orders VALUES ('Rome', 5), ('Bern', 6)",
    "UPDATE orders SET amount = amount + 10 WHERE city = 'Oslo' OR amount = 5",
)
# Half of it lets commits come together; the other half is several times what a hop takes.
FRESHNESS_S = 20
OPTIONS = (
    "WITH ('materialized-table.upstream-wait' = '1 min') FRESHNESS = INTERVAL '2' SECOND REFRESH_MODE = FULL"
)


def times(gateway: GatewayUnderTest, table: str) -> dict[object, tuple[str, str]]:
    """Return begin and end of the scheduled refreshes that are done, by their schedule times."""
    runs = [run for run in gateway.runs(table) if run["kind"] == "PERIODIC"]
    done = [run for run in runs if run["status"] in ("SUCCEEDED", "SKIPPED")]
    return {run["schedule time"]: (run["started at"], run["finished at"]) for run in done}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("chains") / "home") as gateway:
        gateway.start()
        yield gateway


def test_two_tables_agree_after_each_schedule_time(gateway: GatewayUnderTest) -> None:
    gateway.sql("CREATE TABLE sold (city STRING, amount INT)")
    gateway.sql("INSERT INTO sold VALUES ('Rome', 1)")
    gateway.sql(
        f"CREATE MATERIALIZED TABLE totals {OPTIONS} AS SELECT city, sum(amount) AS amount "
        "FROM sold GROUP BY city"
    )
    gateway.sql("CREATE VIEW seen AS SELECT * FROM totals")
    gateway.sql(f"CREATE MATERIALIZED TABLE best {OPTIONS} AS SELECT max(amount) AS amount FROM seen")
    gateway.sql("INSERT INTO sold VALUES ('Rome', 10)")
    seen = len(times(gateway, "best"))
    wait_until(lambda: len(times(gateway, "best")) > seen + 1, "a refresh of both")
    low, high = times(gateway, "totals"), times(gateway, "best")
    best = gateway.sql("SELECT amount FROM best")
    gateway.sql("ALTER MATERIALIZED TABLE best SUSPEND")
    gateway.sql("ALTER MATERIALIZED TABLE totals SUSPEND")

    both = low.keys() & high.keys()
    assert len(both) >= 2
    assert all(high[point][0] >= low[point][1] for point in both), (low, high)
    assert best == [{"amount": 11}]


def test_each_commit_reaches_the_last_of_five_continuous_tables_within_the_freshness_of_each(
    gateway: GatewayUnderTest,
) -> None:
    made = (
        f"WITH ('refresh.strategy' = 'incremental') FRESHNESS = INTERVAL '{FRESHNESS_S}' SECOND "
        "REFRESH_MODE = CONTINUOUS"
    )
    gateway.sql("CREATE TABLE orders (city STRING, amount INT)")
    gateway.sql("INSERT INTO orders VALUES ('Rome', 1), ('Rome', 2), ('Oslo', 3), (NULL, 4)")
    for name, query in CHAIN.items():
        gateway.sql(f"CREATE MATERIALIZED TABLE {name} {made} AS {query}")
    for change in CHANGES:
        gateway.sql(change)
        expected = gateway.sql(LAST)
        wait_until(
            lambda expected=expected: (  # type: ignore[misc]
                gateway.sql("SELECT * FROM five ORDER BY ALL") == expected
            ),
            f"{change} did not reach the last table",
            len(CHAIN) * FRESHNESS_S,
        )
    batches = {name: gateway.sql(f"SHOW REFRESHES FOR {name} BATCHES") for name in CHAIN}

    lags = {name: [batch["lag seconds"] for batch in found] for name, found in batches.items()}
    assert {name: len(found) for name, found in lags.items()} == dict.fromkeys(CHAIN, len(CHANGES)), batches
    assert all(0 <= lag <= FRESHNESS_S for found in lags.values() for lag in found), batches
