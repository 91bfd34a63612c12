"""The demo reads the facts about its tables from the answers of a gateway."""

from __future__ import annotations

from datetime import datetime, timedelta

from mt_core.demo.facts import RunFacts, TableFacts, read_decision, read_runs, read_tables
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ROUTES = "lake.demo.routes"
CREATE = f"""CREATE MATERIALIZED TABLE {ROUTES} FRESHNESS = INTERVAL '10' SECOND REFRESH_MODE = FULL
AS SELECT * FROM lake.default.orders"""


def test_tables_and_runs_are_read_as_facts(whole: WholeGateway) -> None:
    whole.sql(CREATE)
    whole.wait_quiet()
    whole.pass_time(seconds=15)

    tables, runs = read_tables(whole.client), read_runs(whole.client, ROUTES, 1)

    assert tables == [
        TableFacts(
            name="routes",
            refresh_mode="FULL",
            freshness=timedelta(seconds=10),
            stale_for=timedelta(0),
        )
    ]
    assert runs == [
        RunFacts(
            table=ROUTES,
            status="SKIPPED",
            partitions="whole table",
            schedule_time=datetime(2026, 3, 1, 12, 0, 10),  # noqa: DTZ001 - the table's clock
            snapshot=None,
            why="sources unchanged",
        )
    ]


def test_the_decision_of_a_refresh_is_read_from_its_explanation(whole: WholeGateway) -> None:
    whole.sql(CREATE)
    whole.wait_quiet()
    settled = read_decision(whole.client, ROUTES)

    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 7}])

    assert (settled, read_decision(whole.client, ROUTES)) == ("skip", "refresh")
