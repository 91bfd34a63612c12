"""kill -9 of the gateway or its Spark while a change is applied:
whatever the way, the change is in the table once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.gateway.own_process import GatewayUnderTest, Victim, alive, wait_until

# CI kills a run that recomputes its table, in test_kill.py.
pytestmark = [pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(600)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A table, and a change of its source that is applied to it in a way of its own."""

    name: str
    way: str
    query: str
    change: str
    partitioned: str = ""


APPENDED = "INSERT INTO source SELECT max(id) + 1, 'north', 7 FROM source"
UPDATED = "UPDATE source SET amount = amount + 1 WHERE id % 10 = 3"
KEPT = [
    Kept(
        name="added",
        way="append",
        query="SELECT id, region, amount * 2 AS twice FROM source",
        change=APPENDED,
    ),
    Kept(name="by_value", way="stages", query="SELECT region, amount FROM source", change=UPDATED),
    Kept(
        name="merged",
        way="merge",
        query="SELECT region, count(*) AS n, sum(amount) AS total FROM source GROUP BY region",
        change=APPENDED,
    ),
    Kept(
        name="by_key",
        way="stages",
        query="SELECT id, row_number() OVER (PARTITION BY id ORDER BY amount) + amount AS n FROM source",
        change=UPDATED,
    ),
    Kept(
        name="partitions",
        way="partitions",
        query="SELECT id, region, rank() OVER (PARTITION BY region ORDER BY amount) AS place FROM source",
        change=APPENDED,
        partitioned="PARTITIONED BY (region)",
    ),
]
# Before the first the change is nowhere, before the second it is on the run's branch, before the third
# on main as well. A run that has lost its Spark begins again in the same gateway; once it is on main
# it needs a Spark no more.
STEPS: dict[str, Victim] = {"write": "jvm", "staged": "jvm", "published": "gateway"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("ways") / "home") as gateway:
        gateway.start()
        gateway.sql(
            "CREATE TABLE source AS SELECT id, IF(id % 2 = 0, 'north', 'south') AS region, "
            "CAST(id % 7 AS INT) AS amount FROM range(200)"
        )
        for kept in KEPT:
            gateway.sql(
                f"CREATE MATERIALIZED TABLE kept_{kept.name} {kept.partitioned} WITH ('refresh.strategy' = "
                f"'incremental') FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL AS {kept.query}"
            )
            gateway.sql(f"ALTER MATERIALIZED TABLE kept_{kept.name} SUSPEND")
        yield gateway


@pytest.mark.parametrize(
    ("kept", "step"),
    [pytest.param(kept, step, id=f"{kept.name}, {step}") for kept in KEPT for step in STEPS],
)
def test_a_change_whose_application_is_killed_is_in_the_table_once(
    gateway: GatewayUnderTest, kept: Kept, step: str
) -> None:
    table = f"kept_{kept.name}"
    gateway.sql(kept.change)
    before = len(gateway.runs(table))
    spark = gateway.jvm_pid
    gateway.die_before(step, table=table, victim=STEPS[step])
    gateway.sql(f"ALTER MATERIALIZED TABLE {table} RESUME")
    wait_until(lambda: not alive(spark), f"nothing was killed before {step}")
    if STEPS[step] == "gateway":
        assert gateway.wait_death() == -9
        gateway.start()
    gateway.wait_for_spark()

    wait_until(lambda: _applied(gateway, table, before) != [], "the change is never applied")
    gateway.sql(f"ALTER MATERIALIZED TABLE {table} SUSPEND")

    [run] = _applied(gateway, table, before)
    assert (run["strategy"], run["attempt"]) == (kept.way, 2)
    assert gateway.published(table, run["refresh"]) == 1
    assert gateway.refs(table) == ["main"]
    assert gateway.sql(f"VERIFY MATERIALIZED TABLE {table}") == []


def _applied(gateway: GatewayUnderTest, table: str, before: int) -> list[dict[str, object]]:
    """Return the refreshes after the first *before* ones that changed the table."""
    return [run for run in gateway.runs(table)[before:] if run["status"] == "SUCCEEDED"]
