"""The page lives: it follows the gateway, says when it cannot, and does what a keyboard asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mt_core.model.partition import PartitionSpec
from tests.browser.browser import Visits
from tests.browser.gateways import shown_gateway, with_libraries
from tests.browser.views import GatewayOf, table
from tests.support.gateway.whole import EVERY_10_S, ORDERS, WholeGateway

pytestmark = pytest.mark.processes


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeGateway]:
    """A gateway that works, with the table `often`, which reads orders, and `above`, which reads `often`."""
    gateway = WholeGateway(tmp_path, app=with_libraries())
    for name, source in (("often", "orders"), ("above", "often")):
        gateway.sql(EVERY_10_S.format(name, source))
    gateway.wait_quiet()
    yield gateway
    gateway.close()


def path_of(whole: WholeGateway, name: str) -> str:
    tables = whole.http.get("/freshtable/v1/tables").json()["tables"]
    return f"/ui/tables/{next(each['id'] for each in tables if each['table'] == name)}"


def fail(whole: WholeGateway) -> None:
    """Let the refreshes of `often` fail until it is late."""
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.engine.commit("lake.default.orders", [*ORDERS, {"ds": "2026-03-01", "amount": 9}])
    for _ in range(3):
        whole.pass_time(seconds=10)


# --------------------------------------------------------------------------------------------- following


def test_a_table_that_becomes_late_moves_to_the_top_and_is_counted(
    visits: Visits, whole: WholeGateway
) -> None:
    with visits.visit(whole.process.server.url) as visit:
        page = visit.open("/ui/")
        assert page.locator("#counters a", has_text="late").locator("b").inner_text() == "0"

        fail(whole)

        page.locator("#rows tr.late", has_text="division by zero").wait_for()
        assert "often" in page.locator("#rows tbody tr").first.inner_text()
        page.locator("#counters a", has_text="late").filter(has_text="2").wait_for()


def test_a_visitor_keeps_the_focus_when_rows_are_replaced(visits: Visits, whole: WholeGateway) -> None:
    with visits.visit(whole.process.server.url) as visit:
        page = visit.open("/ui/")
        page.keyboard.press("j")
        focused = page.evaluate("document.activeElement.id")

        fail(whole)

        page.locator("#rows tr.late").first.wait_for()
        assert focused.startswith("t-")
        assert page.evaluate("document.activeElement.id") == focused


def test_the_page_of_a_table_follows_it(visits: Visits, whole: WholeGateway) -> None:
    with visits.visit(whole.process.server.url) as visit:
        page = visit.open(path_of(whole, "often"))

        fail(whole)

        page.get_by_text("Late by").first.wait_for()
        page.locator("main", has_text="division by zero").wait_for()


def test_the_page_says_when_the_gateway_gives_no_answer_and_when_it_does_again(
    visits: Visits, tmp_path: Path
) -> None:
    with shown_gateway(tmp_path) as gateway, visits.visit(gateway.url) as visit:
        page = visit.open("/ui/")

        visit.cut_off()
        expect(page.get_by_text("No answer from the gateway since")).to_be_visible()
        visit.connect()
        expect(page.get_by_text("No answer from the gateway since")).to_be_hidden()


def test_ages_grow_without_a_request(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        page = visit.open(table("sessions"))
        age = page.locator("time.age").first
        before = age.inner_text()

        expect(age).not_to_have_text(before)


# -------------------------------------------------------------------------------------- finding, keyboard


def test_counters_filter_and_search_finds_names_and_sources(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        page = visit.open("/ui/")
        every = page.locator("#rows tbody tr").count()

        page.locator("#counters a", has_text="suspended").click()
        page.wait_for_url("**state=**")
        assert page.locator("#rows tbody tr").count() == 1
        page.locator("#counters a", has_text="suspended").click()
        expect(page.locator("#rows tbody tr")).to_have_count(every)
        page.keyboard.press("/")
        page.keyboard.type("ENTRIES")
        expect(page.locator("#rows tbody tr")).to_have_count(2)

        assert "balances" in page.locator("#rows").inner_text()


def test_keys_lead_through_the_page(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        page = visit.open("/ui/")
        for letter, heading in (("g", "Graph"), ("j", "Jobs"), ("a", "Gateway"), ("t", "Tables")):
            page.keyboard.press("g")
            page.keyboard.press(letter)
            page.locator("h1", has_text=heading).wait_for()
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keys").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        first = page.locator("#rows a.row").first.inner_text()
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/tables/**")

        assert page.locator("h1").inner_text().startswith(first.rpartition(".")[2])


def test_the_theme_is_remembered(visits: Visits, gateway_of: GatewayOf) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    with visits.visit(gateway_of("tables").url) as visit:
        page = visit.open("/ui/")
        light = page.evaluate(paper)
        page.get_by_role("button", name="Switch between light and dark").click()
        dark = page.evaluate(paper)
        page.reload()

        assert light != dark
        assert page.evaluate(paper) == dark


def test_the_query_can_be_copied(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("tables").url, permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.open(table("revenue"))
        page.get_by_role("button", name="Copy").first.click()
        page.get_by_text("Copied").wait_for()

        assert page.evaluate("navigator.clipboard.readText()").startswith("SELECT city")


# ------------------------------------------------------------------------------------------------ charts


def test_charts_are_drawn_and_share_their_cursor(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        page = visit.open(table("revenue"))
        charts = page.locator("#charts canvas")
        charts.nth(1).wait_for()
        page.locator("#charts .u-over").first.hover()

        shown = page.locator("#charts .u-cursor-x").evaluate_all(
            "all => all.map(each => getComputedStyle(each).transform)"
        )
        assert charts.count() == 2
        assert len(set(shown)) == 1
        assert shown[0] != "none"


def test_the_range_of_the_charts_can_be_chosen_without_losing_the_place(
    visits: Visits, gateway_of: GatewayOf
) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        page = visit.open(table("revenue"))
        page.locator("#charts").get_by_role("link", name="7 d").click()
        page.wait_for_url("**range=7d**")

        expect(page.locator("#charts canvas").nth(1)).to_be_visible()


# ----------------------------------------------------------------------------------------------- actions


@pytest.mark.parametrize("scripts", [True, False])
def test_a_table_is_refreshed_suspended_resumed_and_verified_from_its_page(
    visits: Visits, whole: WholeGateway, scripts: bool
) -> None:
    with visits.visit(whole.process.server.url, scripts=scripts) as visit:
        page = visit.open(path_of(whole, "often"))
        for action, says in (
            ("Refresh", "Refresh requested"),
            ("Suspend", "Table suspended"),
            ("Resume", "Table resumed"),
            ("Verify", "Rows compared"),
        ):
            button = "Compare" if action == "Verify" else action
            page.get_by_role("link", name=action, exact=True).first.click()
            form = page.locator("#dialog form")
            form.wait_for()
            form.get_by_role("button", name=button).click()
            page.locator(".note[role=status]", has_text=says).wait_for()
            whole.wait_quiet()

    kinds = set(whole.show("kind", name="often"))
    assert {"MANUAL", "VERIFY"} <= kinds
    assert whole.facts("often")["status"].startswith("ACTIVATED")


def test_a_dialog_that_is_closed_has_changed_nothing(visits: Visits, whole: WholeGateway) -> None:
    before = len(whole.refreshes())
    with visits.visit(whole.process.server.url) as visit:
        page = visit.open(path_of(whole, "often"))
        page.keyboard.press("r")
        page.locator("dialog[open] #dialog").wait_for()
        page.keyboard.press("Escape")
        page.locator("dialog[open]").wait_for(state="hidden")

    assert len(whole.refreshes()) == before


# --------------------------------------------------------------------------------------------------- SQL


def test_sql_is_edited_completed_run_and_remembered(visits: Visits, whole: WholeGateway) -> None:
    with visits.visit(whole.process.server.url) as visit:
        page = visit.open("/ui/sql")
        page.locator(".CodeMirror").click()
        page.keyboard.type("SELECT * FROM often")
        page.keyboard.press("Control+Enter")
        page.locator("#run table tbody tr").first.wait_for()

        assert page.locator("#run thead").inner_text().lower().split()[1:2] == ["ds"]
        assert page.locator("#run tbody tr").count() == 2
        page.reload()
        page.get_by_text("History").click()
        page.locator("#history", has_text="SELECT * FROM often").wait_for()


def test_an_error_of_sql_is_shown_in_words(visits: Visits, whole: WholeGateway) -> None:
    with visits.visit(whole.process.server.url) as visit:
        page = visit.open("/ui/sql")
        page.locator(".CodeMirror").click()
        page.keyboard.type("DROP MATERIALIZED TABLE nothing")
        page.keyboard.press("Control+Enter")

        expect(page.locator("#run")).to_contain_text("nothing does not exist")
