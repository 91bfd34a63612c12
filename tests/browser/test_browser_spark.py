"""The page of a gateway as a user has it: signed in, on a real Spark, which is lost and comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import Visits
from tests.support.gateway.own_process import GatewayUnderTest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A busy machine takes a while for the first statements of a Spark, and to start another one.
WAIT_MS = 180_000
TABLE = (
    "CREATE MATERIALIZED TABLE by_city FRESHNESS = INTERVAL '1' HOUR AS "
    "SELECT city, sum(amount) AS amount FROM orders GROUP BY city"
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    home: Path = tmp_path_factory.mktemp("home")
    tokens = "sql-gateway.security.tokens=ann:sql:geheim,bob:read:lesen,boss:admin:alles"
    with GatewayUnderTest(home, [tokens], token="alles") as started:
        started.start()
        yield started


def run(page: Page, statement: str) -> None:
    """Run a statement on the SQL page and wait until it has ended."""
    before = page.locator("#run").get_attribute("data-address") or ""
    page.locator(".CodeMirror").click()
    page.keyboard.press("Control+A")
    page.keyboard.type(statement)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#run")).not_to_have_attribute("data-address", before, timeout=WAIT_MS)
    expect(page.locator("#stop")).to_have_count(0, timeout=WAIT_MS)
    expect(page.locator("#run")).to_contain_text("done")
    expect(page.locator("#run [role=alert]")).to_have_count(0)


def test_a_table_is_made_watched_refreshed_and_explained_on_the_page(
    visits: Visits, gateway: GatewayUnderTest
) -> None:
    with visits.visit(gateway.url, token="geheim") as visit:
        page = visit.open("/ui/sql")
        run(page, "CREATE TABLE orders (city STRING, amount INT)")
        run(page, "INSERT INTO orders VALUES ('Rome', 1), ('Oslo', 2)")
        run(page, TABLE)
        page = visit.open("/ui/")
        page.locator("#rows tr", has_text="by_city").locator("a.row").click()
        expect(page.locator("h1")).to_contain_text("by_city")
        expect(page.locator("#ledger")).to_contain_text("succeeded", timeout=WAIT_MS)

        address = page.url
        gateway.sql("INSERT INTO orders VALUES ('Rome', 10)")
        page.get_by_role("link", name="Explain refresh").click()
        page.get_by_role("button", name="Explain").first.click()
        expect(page.locator("main")).to_contain_text("orders changed", timeout=WAIT_MS)
        page.goto(address)
        page.get_by_role("link", name="Refresh", exact=True).first.click()
        page.locator("#dialog").get_by_role("button", name="Refresh").click()
        expect(page.locator("#ledger tbody tr").first).to_contain_text("ann", timeout=WAIT_MS)
        expect(page.locator("#ledger tbody tr").first).to_contain_text("succeeded", timeout=WAIT_MS)

    runs = gateway.runs("by_city")
    assert [run["status"] for run in runs] == ["SUCCEEDED", "SUCCEEDED"]
    assert sorted(row["amount"] for row in gateway.sql("SELECT amount FROM by_city")) == [2, 11]


def test_the_page_says_that_spark_was_lost_and_that_it_is_back(
    visits: Visits, gateway: GatewayUnderTest
) -> None:
    with visits.visit(gateway.url, token="lesen") as visit:
        page = visit.open("/ui/")
        ready, lost = page.get_by_text("Spark ready"), page.get_by_text("Spark is not ready").first
        expect(ready).to_be_visible()

        os.kill(gateway.jvm_pid, signal.SIGKILL)

        expect(lost).to_be_visible(timeout=WAIT_MS)
        expect(ready).to_be_visible(timeout=WAIT_MS)
