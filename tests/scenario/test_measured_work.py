"""What the gateway measures of its own work, as a scrape shows it."""

from __future__ import annotations

import pytest

from mt_core.metrics import families
from mt_core.metrics.families import Family
from tests.support.gateway.whole import DAILY, WholeGateway, root_cause
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.scrape import Samples, Scrape


def scraped(whole: WholeGateway, family: Family, suffix: str = "") -> Samples:
    answer = whole.http.get("/metrics")
    assert answer.status_code == 200
    return Scrape.of(answer.text).of_family(family, suffix)


def test_each_request_is_counted_under_the_route_of_its_endpoint(whole: WholeGateway) -> None:
    session = whole.http.post("/v3/sessions", json={}).json()["sessionHandle"]
    for _ in range(2):
        whole.http.get(f"/v3/sessions/{session}")
    whole.http.get("/v3/sessions/nowhere/operations/at-all/status")
    whole.http.get("/freshtable/v1/tables?limit=x")
    whole.http.get("/info/")

    counts = scraped(whole, families.HTTP_REQUESTS)

    assert counts["POST", "/v3/sessions", "2xx"] == 1
    assert counts["GET", "/v3/sessions/{session_handle}", "2xx"] == 2
    operations = "/v3/sessions/{session_handle}/operations/{operation_handle}"
    assert counts["GET", f"{operations}/status", "4xx"] == 1
    assert counts["GET", "/freshtable/v1/tables", "4xx"] == 1
    assert counts["GET", "/info", "2xx"] == 1
    assert scraped(whole, families.HTTP_DURATION, "_count")["GET", "/info"] == 1
    assert scraped(whole, families.HTTP_REQUESTS)["GET", "/metrics", "2xx"] >= 2


def test_whatever_paths_and_methods_clients_try_there_is_one_series_for_them(whole: WholeGateway) -> None:
    before = set(scraped(whole, families.HTTP_REQUESTS))

    for number in range(20):
        whole.http.get(f"/admin/{number}.php")
        whole.http.request("PROPFIND", f"/v3/{number}/{number}")
    whole.http.request("MKCOL", "/v3/sessions")
    whole.http.delete("/v3/sessions")

    new = set(scraped(whole, families.HTTP_REQUESTS)) - before
    assert new == {
        ("GET", "/metrics", "2xx"),
        ("GET", "(unknown)", "4xx"),
        ("(other)", "(unknown)", "4xx"),
        ("DELETE", "(unknown)", "4xx"),
    }


def test_a_statement_is_counted_once_with_its_outcome(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.sql("SHOW MATERIALIZED TABLES")
    whole.refused("ALTER MATERIALIZED TABLE nowhere SUSPEND")
    whole.refused("FROBNICATE everything")

    counts = scraped(whole, families.STATEMENTS)

    assert counts == {
        ("CREATE_MATERIALIZED_TABLE", "FINISHED"): 1,
        ("SHOW_MATERIALIZED_TABLES", "FINISHED"): 1,
        ("ALTER_MATERIALIZED_TABLE", "ERROR"): 1,
        ("(other)", "ERROR"): 1,
    }
    assert sum(scraped(whole, families.STATEMENT_DURATION, "_count").values()) == 4


def test_an_internal_error_is_a_request_that_failed(
    whole: WholeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole.process.sessions, "get", lambda _handle: 1 / 0)
    answer = whole.http.get("/v3/sessions/00000000-0000-0000-0000-000000000000")

    counts = scraped(whole, families.HTTP_REQUESTS)

    assert "ZeroDivisionError" in root_cause(answer)
    assert counts["GET", "/v3/sessions/{session_handle}", "5xx"] == 1


def test_the_transactions_of_the_registry_are_measured(whole: WholeGateway) -> None:
    before = scraped(whole, families.REGISTRY_TRANSACTION, "_count")[()]

    whole.sql(DAILY)

    assert scraped(whole, families.REGISTRY_TRANSACTION, "_count")[()] > before
    assert scraped(whole, families.REGISTRY_WAIT, "_sum")[()] < 60.0
    assert scraped(whole, families.REGISTRY_ERRORS) == {(): 0}


def test_a_scrape_takes_no_turn_of_the_registry(whole: WholeGateway) -> None:
    whole.http.get("/metrics")

    with whole.process.registry.transaction():
        during = whole.http.get("/metrics", timeout=10)

    assert during.status_code == 200


def test_sessions_results_and_spark_are_shown(whole: WholeGateway) -> None:
    whole.client.session  # noqa: B018  opens it
    whole.process.metrics.spark.read()
    whole.process.metrics.backlog.read()

    assert scraped(whole, families.SESSIONS) == {(): 1}
    assert scraped(whole, families.RESULT_BYTES) == {("memory",): 10, ("disk",): 20}
    assert scraped(whole, families.SPARK_UP) == {(): 1}
    assert scraped(whole, families.REFRESHES_QUEUED) == {("false",): 0, ("true",): 0}
    assert scraped(whole, families.QUEUE_OLDEST) == {}
    assert scraped(whole, families.EVENTS_DROPPED) == {(): 0}
