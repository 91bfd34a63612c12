"""The two examples of FLIP-292 by a clock that the test moves: each operator forgets a row at the time
that its plan gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from mt_core.spark.driver.jvm_objects import active_session, java_dataset
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.operator_stream import OperatorStream, changelog_of
from tests.support.plans import FIRST_EXAMPLE

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ORDERS = "order_id STRING, user_id STRING, product_id STRING, num BIGINT"
EVENTS = "of STRING, order_id STRING, order_line_id STRING, product_id STRING, shipment_status STRING"
ENRICHED = (
    "CREATE OR REPLACE TEMPORARY VIEW Orders AS SELECT order_id FROM events WHERE of = 'order'",
    "CREATE OR REPLACE TEMPORARY VIEW order_shipped AS SELECT order_line_id, order_id, product_id "
    "FROM events WHERE of = 'shipment' AND shipment_status = 'SHIPPED'",
    "CREATE OR REPLACE TEMPORARY VIEW enriched_view AS SELECT tmp_b.order_line_id, tmp_a.order_id, "
    "tmp_b.product_id FROM Orders tmp_a JOIN order_shipped tmp_b ON tmp_a.order_id = tmp_b.order_id",
)


@pytest.fixture
def start(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Callable[..., OperatorStream]]:
    """Give what starts a query of the view `events`, with more views, by the state TTLs of a plan."""
    session, made = module_driver.new_session(), list[OperatorStream]()
    session.conf.set("spark.sql.shuffle.partitions", "1")

    def make(columns: str, views: Sequence[str], text: str, *ttls: Sequence[str]) -> OperatorStream:
        def planned(rows: DataFrame) -> DataFrame:
            rows.createOrReplaceTempView("events")
            for view in views:
                session.sql(view)
            return DataFrame(
                java_dataset(session, changelog_of(session, text, planned_ttls=ttls).plan), session
            )

        made.append(OperatorStream(session, tmp_path, columns, planned))
        return made[-1]

    with active_session(session):
        yield make
    for each in made:
        each.stop()


def test_an_order_is_a_duplicate_for_an_hour_and_the_counts_of_a_product_stay_for_a_day(
    start: Callable[..., OperatorStream],
) -> None:
    view = "CREATE OR REPLACE TEMPORARY VIEW Orders AS SELECT *, now() AS proctime FROM events"
    orders = start(ORDERS, [view], FIRST_EXAMPLE, ["1 h"], ["24 h"])

    def bought(order: str, user: str, num: int) -> list[tuple[Any, ...]]:
        """Return each change that comes with the next order: its kind, users, orders and quantity."""
        row = {"order_id": order, "user_id": user, "product_id": "tea", "num": num}
        return [
            (kind, given["buy_uv"], given["order_cnt"], given["quantity_cnt"])
            for kind, given in orders.feed(row)
        ]

    found = [bought("1", "ann", 3), bought("1", "ann", 3)]
    orders.wait(HOUR - MINUTE)
    found += [bought("1", "ann", 3)]
    orders.wait(MINUTE)
    found += [bought("1", "ann", 3)]
    orders.wait(DAY - MINUTE)
    found += [bought("2", "bob", 1)]
    orders.wait(DAY)
    found += [bought("3", "ann", 2)]

    assert found == [
        [("+I", 1, 1, 3)],
        [],
        [],
        # The deduplication has forgotten the order after an hour; the aggregate knows its user still.
        [("-U", 1, 1, 3), ("+U", 1, 2, 6)],
        [("-U", 1, 2, 6), ("+U", 2, 3, 7)],
        # A day without an order of the product.
        [("+I", 1, 1, 2)],
    ]


def test_an_order_waits_for_its_shipments_for_seven_days_and_a_shipment_for_its_order_for_one(
    start: Callable[..., OperatorStream],
) -> None:
    events = start(EVENTS, ENRICHED, "SELECT * FROM enriched_view", ["7 d", "1 d"])

    def ordered(order: str) -> list[tuple[Any, Any]]:
        return shipped(order, None, of="order")

    def shipped(order: str, line: str | None, of: str = "shipment") -> list[tuple[Any, Any]]:
        """Return the lines of orders that come with the next event."""
        row = {
            "of": of,
            "order_id": order,
            "order_line_id": line,
            "product_id": "tea",
            "shipment_status": "SHIPPED",
        }
        return [(given["order_id"], given["order_line_id"]) for _, given in events.feed(row)]

    found = [ordered("1"), shipped("2", "20"), shipped("3", "30")]
    events.wait(DAY - HOUR)
    found += [ordered("2")]
    events.wait(HOUR)
    found += [ordered("3")]
    events.wait(6 * DAY - HOUR)
    found += [shipped("1", "10")]
    events.wait(HOUR)
    found += [shipped("1", "11"), shipped("2", "21")]

    # The order 1 came 7 days before its second shipment, and 2 not yet;
    # the shipment 30 came a day before its order.
    assert found == [[], [], [], [("2", "20")], [], [("1", "10")], [], [("2", "21")]]
