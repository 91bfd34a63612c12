"""Rows reach a source after the partition of their day was refreshed."""

from __future__ import annotations

from tests.support.gateway.whole import DAILY, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"
FIRST = [{"ds": "2026-03-01", "amount": 1}]
LATE = {"ds": "2026-03-01", "amount": 10}


def test_late_rows_are_in_the_table_after_the_next_tick_which_says_so(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, FIRST)
    whole.sql(DAILY)
    whole.pass_time(hours=12)
    whole.engine.commit(ORDERS, [*FIRST, LATE, {"ds": "2026-03-02", "amount": 2}])

    whole.pass_time(days=1)
    whole.restart()
    whole.pass_time(days=1)

    assert whole.show("schedule time", "partitions", "status", "reason")[2:] == [
        (
            "2026-03-03 00:00:00",
            "ds=2026-03-01, ds=2026-03-02",
            "SUCCEEDED",
            "lake.default.orders changed; late rows in 1 earlier partition: ds=2026-03-01",
        ),
        ("2026-03-04 00:00:00", "ds=2026-03-03", "SUCCEEDED", "lake.default.orders changed"),
    ]
    assert whole.amounts() == [("2026-03-01", 1), ("2026-03-01", 10), ("2026-03-02", 2)]


def test_a_table_that_reports_late_rows_names_them_until_somebody_refreshes_their_day(
    whole: WholeGateway,
) -> None:
    whole.engine.commit(ORDERS, FIRST)
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SET ('refresh.late-data' = 'report')")
    whole.pass_time(hours=12)
    whole.engine.commit(ORDERS, [*FIRST, LATE])

    whole.pass_time(days=1)
    reported = whole.show("reason", "partitions")[-1]
    before = whole.amounts()
    whole.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '2026-03-01')")
    whole.pass_time(days=1)

    assert reported == (
        (
            "lake.default.orders changed; late rows in 1 earlier partition: ds=2026-03-01; "
            "'refresh.late-data' = 'report' leaves them"
        ),
        "ds=2026-03-02",
    )
    assert (before, whole.amounts()) == ([("2026-03-01", 1)], [("2026-03-01", 1), ("2026-03-01", 10)])
    assert whole.show("partitions", "reason")[-1] == ("ds=2026-03-03", "lake.default.orders changed")
