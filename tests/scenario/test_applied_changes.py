"""A user chooses how refreshes compute the rows of a table, and sees how they did."""

from __future__ import annotations

from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

TOTALS = (
    "CREATE MATERIALIZED TABLE totals WITH ('refresh.strategy' = 'full') FRESHNESS = INTERVAL '1' HOUR "
    "AS SELECT * FROM orders"
)


def test_a_strategy_is_explained_before_it_is_chosen_and_the_ledger_says_what_it_did(
    whole: WholeGateway,
) -> None:
    (explained,) = whole.sql(f"EXPLAIN {TOTALS}")
    whole.sql(TOTALS)

    answer = whole.sql("ALTER MATERIALIZED TABLE totals SET ('refresh.strategy' = 'auto')")
    (created,) = whole.sql("SHOW CREATE MATERIALIZED TABLE totals")
    (planned,) = whole.sql("EXPLAIN REFRESH totals")

    assert "appended rows: recompute ('auto' has append: " in str(explained["result"])
    assert answer == [{"result": "OK"}]
    assert "'refresh.strategy' = 'auto'" in str(created["result"])
    assert "appended rows: append: " in str(planned["result"])
    assert whole.show("strategy", "rows inserted", "rows updated", "rows deleted", name="totals") == [
        ("recompute", 2, None, 0)
    ]


def test_a_mistake_in_an_option_is_answered_with_the_option_that_was_meant(whole: WholeGateway) -> None:
    whole.sql(TOTALS)

    message = whole.refused("ALTER MATERIALIZED TABLE totals SET ('refresh.strateg' = 'auto')")

    assert "unknown option refresh.strateg; did you mean refresh.strategy?" in message
