"""The system clock is set ahead or back while a gateway runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"


@pytest.mark.parametrize(
    "jump", [timedelta(days=-3), timedelta(hours=-1), timedelta(hours=1), timedelta(days=3)]
)
def test_tables_are_refreshed_and_sessions_stay_open_when_the_clock_is_put(
    whole: WholeGateway, jump: timedelta
) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.sql("SET 'table.local-time-zone' = 'UTC'")
    whole.pass_time(seconds=10)
    before = len(whole.show("status", name="often"))

    whole.clock.put(jump)
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 30}])
    for _ in range(3):
        whole.pass_time(seconds=10)

    assert whole.amounts("often") == [("2026-03-01", 30)]
    since = whole.show("status", name="often")[before:]
    assert since.count("SUCCEEDED") == 1
    assert set(since) <= {"SUCCEEDED", "SKIPPED"}
    assert 2 <= len(since) <= 4


def test_a_clock_that_was_days_ahead_and_is_set_right_delays_no_refresh(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.clock.put(timedelta(days=3))
    whole.pass_time(seconds=10)
    whole.clock.put(timedelta(days=-3))
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 30}])

    for _ in range(2):
        whole.pass_time(seconds=10)

    assert whole.amounts("often") == [("2026-03-01", 30)]
    assert whole.facts("often")["next run"] == "2026-03-01 12:00:40"


def test_a_table_that_was_created_while_the_clock_was_ahead_is_refreshed_once_it_is_suspended_and_resumed(
    whole: WholeGateway,
) -> None:
    whole.clock.put(timedelta(days=3))
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.clock.put(timedelta(days=-3))
    whole.pass_time(seconds=10)
    whole.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    whole.sql("ALTER MATERIALIZED TABLE often RESUME")
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 30}])

    for _ in range(2):
        whole.pass_time(seconds=10)

    assert whole.amounts("often") == [("2026-03-01", 30)]
