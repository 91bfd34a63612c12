"""A user verifies a table, and finds the certificate in SHOW REFRESHES."""

from __future__ import annotations

from tests.support.gateway.whole import WholeGateway, identifier_of
from tests.support.gateway.whole import whole_gateway as whole_gateway

TOTALS = "CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM orders"


def test_rows_that_nobody_refreshed_are_found_and_a_refresh_takes_them_away(whole: WholeGateway) -> None:
    whole.sql(TOTALS)
    whole.engine.write_foreign(identifier_of("totals"), [{"ds": "2026-03-09", "amount": 9}])

    found = whole.sql("VERIFY MATERIALIZED TABLE totals")
    whole.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    after = whole.sql("VERIFY MATERIALIZED TABLE totals SAMPLE 10 PERCENT")

    assert found == [{"difference": "unexpected", "copies": 1, "ds": "2026-03-09", "amount": 9}]
    assert after == []
    assert whole.show("kind", "status", name="totals") == [
        ("INITIAL", "SUCCEEDED"),
        ("VERIFY", "FAILED"),
        ("MANUAL", "SUCCEEDED"),
        ("VERIFY", "SUCCEEDED"),
    ]
    assert [(row["job name"], row["status"]) for row in whole.sql("SHOW JOBS")] == [
        ("verify-totals", "FINISHED")
    ] * 2


def test_a_sample_of_nothing_and_a_table_that_is_not_there_are_refused(whole: WholeGateway) -> None:
    whole.sql(TOTALS)

    assert "a percentage greater than 0 and at most 100" in whole.refused(
        "VERIFY MATERIALIZED TABLE totals SAMPLE 0"
    )
    assert "does not exist" in whole.refused("VERIFY MATERIALIZED TABLE nothing")
