"""Visitors ask what a refresh would do, and read the answer on a page of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mt_core.gateway.page.explanations import MOST_AT_WORK
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import Element
from tests.support.page_visit import Browser, Visits, visits_of

FOREVER_S = 60.0


@pytest.fixture
def visits(whole: WholeGateway) -> Iterator[Visits]:
    with visits_of(whole.services) as visits:
        yield visits


@pytest.fixture
def path(whole: WholeGateway) -> str:
    """The page of the explanation of a table that was refreshed once."""
    return explained(whole, "often")


def explained(whole: WholeGateway, name: str) -> str:
    whole.sql(EVERY_10_S.format(name, "orders"))
    whole.wait_quiet()
    tables = whole.http.get("/freshtable/v1/tables").json()["tables"]
    [found] = [each["id"] for each in tables if each["table"] == name]
    return f"/tables/{found}/explain"


def ask(browser: Browser, path: str) -> str:
    return browser.follow(browser.send(path))


def ended(whole: WholeGateway, browser: Browser, path: str) -> Element:
    """Return the page when the explanation has ended."""
    for operation in whole.process.sessions.operations():
        assert operation.wait(FOREVER_S)
    return browser.get(path)


def test_what_a_refresh_would_do_is_asked_by_a_form_and_shown_with_who_asked(
    whole: WholeGateway, visits: Visits, path: str
) -> None:
    browser = visits.browser()
    before = browser.get(path)
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])

    to = ask(browser, path)
    page = ended(whole, browser, to)

    assert to == path
    assert "Not explained yet." in before.one(id="explanation").text
    plan = page.one("pre", id="plan").text
    assert plan.startswith("Refresh of lake.default.often scope: whole table")
    assert "decision:" in plan
    assert "by ann" in page.one(id="explanation").text
    assert page.one(id="explanation").one("button", type="submit").text == "Explain again"
    # It was shown only, and its session is closed.
    assert [run["kind"] for run in whole.refreshes()] == ["INITIAL"]
    assert [each.name for each in whole.process.sessions.views() if each.name] == []


def test_an_error_is_shown_in_words(whole: WholeGateway, visits: Visits, path: str) -> None:
    browser = visits.browser()
    del whole.engine.sources["lake.default.orders"]

    page = ended(whole, browser, ask(browser, path))

    assert "EXPLAIN REFRESH failed." in page.one(role="alert").text
    assert "orders" in page.one("pre").text


def test_while_spark_starts_the_page_says_so_and_then_shows_the_plan(
    whole: WholeGateway, visits: Visits, path: str
) -> None:
    browser = visits.browser()
    whole.statements.ready.clear()
    whole.engine.away = True

    page = browser.get(ask(browser, path))
    waiting = page.one(id="explanation")
    whole.engine.away = False
    whole.statements.ready.set()

    assert "Working for" in waiting.text
    assert "Spark is not ready: The fake engine is away." in waiting.text
    assert waiting.attributes["data-every"] == "1"
    assert page.every("form", action=f"/ui{path}") == []
    assert ended(whole, browser, path).one("pre", id="plan").text.startswith("Refresh of")


def test_the_part_of_an_explanation_asks_no_more_once_it_has_ended(
    whole: WholeGateway, visits: Visits, path: str
) -> None:
    browser = visits.browser()
    ended(whole, browser, ask(browser, path))

    part = browser.part(path, "explanation", since="an earlier version")

    assert part.status_code == 200
    assert "data-every" not in part.text
    assert "Refresh of lake.default.often" in part.text


def test_two_visitors_who_ask_at_once_get_one_answer(whole: WholeGateway, visits: Visits, path: str) -> None:
    ann, boss = visits.browser(), visits.browser("chef")
    whole.statements.ready.clear()
    key = ann.get(path).one("form", action=f"/ui{path}").one("input", name="csrf").attributes["value"]

    ask(ann, path)
    again = ann.http.post(f"/ui{path}", data={"csrf": key})
    seen = boss.get(path)
    sessions = [each.name for each in whole.process.sessions.views() if each.name]
    whole.statements.ready.set()

    assert again.status_code == 303
    assert sessions == ["EXPLAIN REFRESH of the page"]
    assert "Working for" in seen.one(id="explanation").text
    ended(whole, boss, path)


def test_only_a_few_tables_are_explained_at_a_time(whole: WholeGateway, visits: Visits) -> None:
    browser = visits.browser()
    paths = [explained(whole, f"t{number}") for number in range(MOST_AT_WORK + 1)]
    whole.statements.ready.clear()

    answers = [browser.send(path) for path in paths]
    whole.statements.ready.set()

    assert [answer.status_code for answer in answers] == [*[303] * MOST_AT_WORK, 503]
    assert f"{MOST_AT_WORK} tables are being explained" in answers[-1].text
    for path in paths[:MOST_AT_WORK]:
        ended(whole, browser, path)


def test_a_visitor_who_may_only_read_can_neither_ask_nor_see_it(
    whole: WholeGateway, visits: Visits, path: str
) -> None:
    browser = visits.browser("lesen")

    page = browser.get(path, status=403)
    answer = browser.http.post(f"/ui{path}", data={"csrf": browser.key})
    table = browser.get(path.removesuffix("/explain"))

    assert "which may only read" in page.one("main").text
    assert answer.status_code == 403
    assert table.one(id="head").every("a", "button") == []


def test_a_form_without_the_key_of_the_page_asks_nothing(
    whole: WholeGateway, visits: Visits, path: str
) -> None:
    browser = visits.browser()

    answer = browser.http.post(f"/ui{path}", data={})

    assert answer.status_code == 403
    assert "Not explained yet." in browser.get(path).one(id="explanation").text


def test_a_dropped_table_is_not_explained(whole: WholeGateway, visits: Visits, path: str) -> None:
    browser = visits.browser()
    form = browser.get(path)
    whole.sql("DROP MATERIALIZED TABLE often")

    page, answer = browser.get(path, status=404), browser.submit(form)

    assert page.one("h1").text == "This table was dropped"
    assert answer.status_code == 404
