"""Tables over tables: a scheduler requests their refreshes, which run upstream first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.fake_scheduler import FakeScheduler
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"
LOW_CHANGED = "lake.default.low changed; recomputed: 100% of the sources changed"


def make_chain(gateway: WholeGateway, *names: str) -> None:
    """Create tables that each read the previous one; the first reads the orders."""
    for name, source in zip(names, ("orders", *names), strict=False):
        gateway.sql(EVERY_10_S.format(name, source))


def order(gateway: WholeGateway, amount: int) -> None:
    gateway.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": amount}])


def test_a_chain_of_five_agrees_after_each_schedule_time(whole: WholeGateway) -> None:
    names = ("first", "second", "third", "fourth", "fifth")
    make_chain(whole, *names)

    for amount in (10, 20):
        order(whole, amount)
        whole.pass_time(seconds=10)
        assert [whole.amounts(name) for name in names] == [[("2026-03-01", amount)]] * 5

    assert {row["status"] for row in whole.refreshes()} == {"SUCCEEDED"}
    ages = {row["stale for"] for row in whole.sql("SHOW MATERIALIZED TABLES")}
    assert ages == {"0 s"}


def test_a_refresh_that_waits_holds_no_worker_and_says_for_what_it_waits(whole: WholeGateway) -> None:
    make_chain(whole, "low", "high")
    for name in ("reader", "other"):
        whole.sql(EVERY_10_S.format(name, "low"))
    whole.sql(EVERY_10_S.format("apart", "orders"))
    order(whole, 10)
    held = whole.hold_write("low")

    whole.tick(seconds=10)
    assert held.entered.wait(60)
    whole.wait_until(lambda: whole.show("status", name="apart")[1:] == ["SUCCEEDED"])
    whole.wait_until(lambda: whole.show("reason", name="high")[-1] is not None)
    waiting = [whole.show("status", "reason", name=name)[-1] for name in ("high", "reader", "other")]
    held.release()
    whole.wait_quiet()

    assert waiting == [("QUEUED", "waits for lake.default.low at 2026-03-01 12:00:10")] * 3
    assert whole.show("status", "reason", name="high")[-1] == ("SUCCEEDED", LOW_CHANGED)
    assert whole.amounts("high") == whole.amounts("low") == [("2026-03-01", 10)]


def test_a_refresh_goes_on_when_the_wait_is_over(whole: WholeGateway) -> None:
    make_chain(whole, "low", "high")
    order(whole, 10)
    held = whole.hold_write("low")
    whole.tick(seconds=10)
    assert held.entered.wait(60)

    whole.tick(seconds=5)
    whole.wait_until(lambda: whole.show("status", name="high")[-1] == "SKIPPED")
    went_on = whole.show("reason", name="high")[-1]
    held.release()
    whole.pass_time(seconds=5)

    assert went_on == "sources unchanged; did not wait for lake.default.low at 2026-03-01 12:00:10"
    assert whole.show("status", "reason", name="high")[-1] == ("SUCCEEDED", LOW_CHANGED)


def test_a_wait_goes_on_after_the_gateway_was_killed(whole: WholeGateway) -> None:
    make_chain(whole, "low", "high")
    order(whole, 10)
    frozen = whole.freeze_before("publish: commit")
    whole.tick(seconds=10)
    assert frozen.entered.wait(60)
    whole.wait_until(lambda: whole.show("reason", name="high")[-1] is not None)

    whole.kill()
    whole.start()
    whole.wait_until(lambda: whole.show("status", name="high")[-1] == "SUCCEEDED")
    frozen.release()

    assert whole.show("status", "attempt", name="low")[-1] == ("SUCCEEDED", 2)
    assert whole.amounts("high") == whole.amounts("low") == [("2026-03-01", 10)]


@pytest.fixture
def unscheduled(tmp_path: Path) -> Iterator[WholeGateway]:
    """A gateway that gets ticks only from the test."""
    with closing(WholeGateway(tmp_path, FakeScheduler)) as gateway:
        yield gateway


def test_requests_of_another_scheduler_are_put_in_order_too(unscheduled: WholeGateway) -> None:
    make_chain(unscheduled, "low", "high")
    order(unscheduled, 10)
    unscheduled.clock.advance(timedelta(seconds=10))
    tick = {"isPeriodic": True, "scheduleTime": "2026-03-01 12:00:10"}

    high = unscheduled.refresh("lake.default.high", tick, {"Idempotency-Key": "h"}).json()["operationHandle"]
    unscheduled.wait_until(lambda: unscheduled.show("reason", name="high")[-1] is not None)
    before = unscheduled.show("status", "reason", name="high")[-1]
    unscheduled.refresh("lake.default.low", tick, {"Idempotency-Key": "l"})

    assert before == ("QUEUED", "waits for lake.default.low at 2026-03-01 12:00:10")
    assert unscheduled.page(high).run["reason"] == LOW_CHANGED
    assert unscheduled.amounts("high") == [("2026-03-01", 10)]
