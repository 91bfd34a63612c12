"""Scripts, sessions, results and errors on the page, as a browser without JavaScript sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from threading import Event, Semaphore
from typing import Any

import httpx
import pytest

from mt_core.base.access import parse_tokens
from mt_core.base.rowset import BIGINT, INT, Column, LogicalType, RowKind, RowSet
from mt_core.errors import ClusterLost, QueryFailed, RequestInvalid
from mt_core.gateway.page.visitor import VisitorCookies
from mt_core.model.progress import Progress
from mt_core.sessions.ports import StatementResult
from tests.support.fake_rows import FakeRows
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway
from tests.support.html_document import Element, document_of
from tests.support.sql_page import SqlPage, raw

TIMESTAMP = LogicalType(root="TIMESTAMP_WITHOUT_TIME_ZONE", extras={"precision": 6})
Visit = Callable[..., SqlPage]


@pytest.fixture
def visit(gateway: Gateway) -> Iterator[Visit]:
    """Open a browser at the SQL view."""
    with ExitStack() as stack:

        def open_browser(**headers: str) -> SqlPage:
            page = SqlPage(str(gateway.http.base_url), **headers)
            stack.enter_context(page.http)
            page.open()
            return page

        yield open_browser


@pytest.fixture
def page(visit: Visit) -> SqlPage:
    return visit()


def answer(gateway: Gateway, sql: str, columns: tuple[Column, ...], *rows: list[Any]) -> None:
    result = StatementResult(is_query=True, rows=RowSet(columns=columns, rows=rows))
    gateway.engine.answers[sql] = result


def stream(gateway: Gateway, rows: FakeRows, sql: str = "SELECT slow") -> FakeRows:
    gateway.engine.answers[sql] = StatementResult(is_query=True, rows=rows)
    return rows


def executed(gateway: Gateway) -> list[str]:
    return [sql for _, sql in gateway.engine.executed]


def ended(shown: Element) -> bool:
    """Return whether the statements of a page have ended."""
    return not shown.every("button", id="stop")


# ------------------------------------------------------------------------------------------------- statements


def test_a_statement_runs_when_it_is_sent_and_its_rows_have_an_address(
    page: SqlPage, gateway: Gateway
) -> None:
    page.run("SELECT 1")

    address = page.address
    page.reload()
    assert "/ui/sql/operations/" in address
    assert (page.status, page.address, page.outcomes) == (200, address, ["done"])
    assert (page.headings, page.rows) == (["a INT"], [["1", "1"]])
    assert raw(page.page.one("textarea")) == "\nSELECT 1"
    assert executed(gateway) == ["SELECT 1"]


def test_opening_pages_runs_nothing_and_opens_no_session(page: SqlPage, gateway: Gateway) -> None:
    page.open(statement="SELECT 1")

    assert raw(page.page.one("textarea")) == "\nSELECT 1"
    assert (executed(gateway), len(gateway.sessions)) == ([], 0)


def test_several_statements_run_in_order_in_one_session(page: SqlPage, gateway: Gateway) -> None:
    page.run("SET 'a' = 'b';\r\nSELECT 1;\r\nSELECT\n  1")
    page.until(lambda shown: page.outcomes[-1] != "running")

    assert page.outcomes == ["done", "done", "failed"]
    assert executed(gateway) == ["SELECT 1", "SELECT\n  1"]
    assert len(gateway.sessions) == 1


def test_each_statement_of_a_script_can_be_looked_at(page: SqlPage) -> None:
    page.run("SELECT 1; SELECT bad")
    listed = page.shown.one("ol", class_="statements").every("a")

    page.follow(listed[0])

    assert [each.attributes.get("aria-current", "") for each in listed] == ["", "true"]
    assert page.rows == [["1", "1"]]
    page.open(page.address.partition("?")[0], statement="3")
    assert page.status == 400


def test_a_script_ends_at_the_first_statement_that_fails(page: SqlPage, gateway: Gateway) -> None:
    page.run("SELECT bad; SELECT 1")

    assert page.outcomes == ["failed", "not run"]
    assert executed(gateway) == ["SELECT bad"]


def test_a_statement_begins_after_the_rows_of_the_one_before_it_are_complete(
    page: SqlPage, gateway: Gateway
) -> None:
    rows = stream(gateway, FakeRows([1]))
    page.run("SELECT slow; SELECT 1")
    before = page.outcomes

    rows.end(QueryFailed("[DIVIDE_BY_ZERO] Division by zero. Use try_divide."))
    page.until(lambda shown: "not run" in page.outcomes)

    assert (before, executed(gateway)) == (["running", "waiting"], ["SELECT slow"])
    assert page.outcomes == ["failed", "not run"]
    assert page.trouble[:2] == ["[DIVIDE_BY_ZERO] Division by zero.", "Use try_divide."]
    assert page.rows == [["1", "1"]]


@pytest.mark.parametrize("text", ["", " \n", "-- nothing\n", ";"])
def test_a_text_without_statements_is_not_run_and_says_so(page: SqlPage, text: str) -> None:
    page.run(text)

    assert page.trouble[0] == "There is no statement here."


def test_a_script_that_cannot_be_split_is_not_run_at_all(page: SqlPage, gateway: Gateway) -> None:
    page.run("SELECT 1;\nSELECT 'open")

    [named] = page.shown.every("li", class_="named")
    assert (executed(gateway), named.one("mark").text) == ([], "'")
    assert named.one(class_="line-number").text == "2"


def test_too_many_statements_are_refused_before_the_first_one(page: SqlPage, gateway: Gateway) -> None:
    page.run("SELECT 1;" * 201)

    assert page.trouble[0].startswith("There are 201 statements here")
    assert executed(gateway) == []


def test_a_change_says_how_many_rows_it_wrote(page: SqlPage, gateway: Gateway) -> None:
    gateway.engine.answers["INSERT INTO t VALUES (1)"] = StatementResult(
        is_query=False, rows=None, affected_rows=1204
    )

    page.run("INSERT INTO t VALUES (1)")

    assert page.shown.one("p", role="status").text.startswith("✓ done 1,204 rows written")
    assert page.shown.every("table") == []


def test_a_statement_with_a_secret_is_not_for_the_history(page: SqlPage) -> None:
    page.run("SET 'a' = 'b'")
    plain = page.shown.attributes.get("data-remember", "")
    page.run("SET 's3.secret-key' = 'hunter2'")

    assert (plain, page.shown.attributes.get("data-remember", "")) == ("yes", "")


# --------------------------------------------------------------------------------------------------- progress


def test_a_running_statement_shows_its_progress_and_is_kept_up(page: SqlPage, gateway: Gateway) -> None:
    held = gateway.engine.hold("SELECT 1")
    gateway.engine.tasks = Progress(done=3, total=200, rows_read=1500)

    page.run("SELECT 1")

    bar = page.shown.one("progress")
    assert (page.outcomes, page.shown.attributes.get("data-every", "")) == (["running"], "1")
    assert (bar.attributes.get("value", ""), bar.attributes.get("max", "")) == ("3", "200")
    assert "3 of 200 tasks · 1,500 rows read" in page.shown.text
    held.release()
    page.until(ended)
    assert (page.outcomes, page.shown.attributes.get("data-every", "")) == (["done"], "")


def test_the_part_that_is_kept_up_is_sent_only_if_it_has_changed(page: SqlPage, gateway: Gateway) -> None:
    rows = stream(gateway, FakeRows([1]))
    page.run("SELECT slow")
    since = page.shown.attributes["data-version"]
    part = {"HX-Request": "true", "HX-Target": "run"}

    same = page.http.get(page.address, params={"since": since}, headers=part)
    rows.add([2])
    new = page.http.get(page.address, params={"since": since}, headers=part)

    assert (same.status_code, same.text) == (204, "")
    section = document_of(new.text).one("section")
    assert (new.status_code, section.attributes.get("id", "")) == (200, "run")
    assert "2 rows so far" in section.text
    rows.end()


def test_stop_cancels_the_running_statement_and_those_after_it(page: SqlPage, gateway: Gateway) -> None:
    gateway.engine.hold("SELECT 1")
    page.run("SELECT 1; SELECT 2")

    page.send(page.shown.one("form"))
    page.until(ended)

    assert page.outcomes == ["stopped", "not run"]
    assert (executed(gateway), len(gateway.engine.canceled)) == (["SELECT 1"], 1)


def test_the_rows_of_a_query_that_was_stopped_remain(page: SqlPage, gateway: Gateway) -> None:
    rows = stream(gateway, FakeRows([1], [2]))
    page.run("SELECT slow")

    page.send(page.shown.one("form"))

    assert rows.stopped
    assert page.outcomes == ["stopped"]
    assert page.rows == [["1", "1"], ["2", "2"]]
    assert "2 rows before it was stopped" in page.shown.text


def test_while_spark_is_not_ready_the_page_says_so_and_a_statement_waits(
    gateway: Gateway, switch: Any, visit: Visit
) -> None:
    gateway.engine.ready.clear()
    trouble = "Spark is starting since 3 s."
    switch.app = app_of(replace(gateway.services, engine_trouble=lambda: trouble))
    page = visit()

    page.run("SELECT 1")

    note = page.page.one("p", class_="warn")
    assert note.text.startswith(f"Spark is not ready. {trouble}")
    assert page.outcomes == ["running"]
    gateway.engine.ready.set()
    page.until(ended)
    assert page.outcomes == ["done"]


def test_a_lost_spark_is_an_error_in_words(page: SqlPage, gateway: Gateway) -> None:
    gateway.engine.failure = ClusterLost("Spark's cluster accepts no work; wait until it is back.")

    page.run("SELECT 1")

    assert page.trouble[:2] == ["Spark's cluster accepts no work.", "Wait until it is back."]
    assert "warn" in page.shown.one(class_="trouble").attributes.get("class", "")


# ---------------------------------------------------------------------------------------------------- results


def test_values_are_shown_by_their_types_and_null_unlike_text(page: SqlPage, gateway: Gateway) -> None:
    columns = (Column(name="id", type=BIGINT), Column(name="<i>"), Column(name="at", type=TIMESTAMP))
    answer(gateway, "SELECT t", columns, [1, None, "2026-03-01T12:00:00"], [2, "NULL", None])

    page.run("SELECT t")

    assert page.headings == ["id BIGINT", "<i> STRING", "at TIMESTAMP(6)"]
    assert page.rows == [
        ["1", "1", "NULL", "2026-03-01 12:00:00.000000"],
        ["2", "2", "NULL", "NULL"],
    ]
    nulls = [bool(cell.every(class_="null")) for cell in page.shown.every("td")]
    assert nulls == [False, False, True, False, False, False, False, True]
    assert [cell.attributes.get("class", "") for cell in page.shown.every("th")] == ["num", "num", "", ""]


def test_text_of_users_is_text(page: SqlPage, gateway: Gateway) -> None:
    evil = "</textarea><script>alert(1)</script>"
    sql = f"SELECT '{evil}'"
    answer(gateway, sql, (Column(name=evil),), [evil])

    page.run(sql)

    assert (page.headings, page.rows) == ([f"{evil} STRING"], [["1", evil]])
    assert raw(page.page.one("textarea")) == f"\n{sql}"
    scripts = [each.attributes.get("src", "") for each in page.page.every("script")]
    assert [address for address in scripts if not address.startswith("/ui/")] == []


def test_a_long_value_is_cut_with_the_whole_of_it_below(page: SqlPage, gateway: Gateway) -> None:
    answer(gateway, "SELECT long", (Column(name="a"),), ["x" * 200], ["y" * 20_001])

    page.run("SELECT long")

    first, second = page.shown.every("details")
    assert (first.one("summary").text, first.one("pre").text) == (f"{'x' * 160}…", "x" * 200)
    assert (len(second.one("pre").text), second.one("p").text) == (20_000, "… and 1 more characters")


def test_rows_are_shown_by_the_hundred_forwards_and_backwards(page: SqlPage, gateway: Gateway) -> None:
    answer(gateway, "SELECT n", (Column(name="n", type=INT),), *([number] for number in range(250)))
    page.run("SELECT n")

    first = page.rows
    following = page.follow(page.shown.one("a", rel="next")).one(class_="pages").text
    page.follow(page.shown.one("a", rel="next"))
    last, links = page.rows, page.shown.every("a", rel="next")
    page.follow(page.shown.one("a", rel="prev"))
    page.follow(page.shown.one("a", rel="prev"))

    assert (first[0], len(first)) == (["1", "0"], 100)
    assert following.startswith("Rows 101\u2013200 of 250")
    assert (last[0], last[-1], links) == (["201", "200"], ["250", "249"], [])
    assert page.rows == first


def test_rows_arrive_while_the_query_goes_on(page: SqlPage, gateway: Gateway) -> None:
    rows = stream(gateway, FakeRows([1]))
    page.run("SELECT slow")
    before = page.rows

    rows.add(*([number] for number in range(2, 151)))
    page.reload()

    assert before == [["1", "1"]]
    assert (len(page.rows), page.outcomes) == (100, ["running"])
    assert page.shown.one(class_="pages").text.startswith("Rows 1\u2013100 of 150 so far")
    rows.end()


def test_the_changes_of_a_stream_have_their_kinds(page: SqlPage, gateway: Gateway) -> None:
    kinds = [RowKind.INSERT, RowKind.DELETE]
    rows = stream(gateway, FakeRows([1], [1], kinds=kinds))
    rows.end()

    page.run("SELECT slow")

    assert (page.headings, page.rows) == (["change", "a INT"], [["1", "+I", "1"], ["2", "-D", "1"]])


def test_a_result_without_rows_says_so(page: SqlPage, gateway: Gateway) -> None:
    answer(gateway, "SELECT none", (Column(name="a", type=INT),))

    page.run("SELECT none")

    assert (page.headings, page.shown.one(class_="no-rows").text) == (["a INT"], "No rows.")


def test_a_plan_is_shown_as_it_is_written(page: SqlPage, gateway: Gateway) -> None:
    plan = "== Physical Plan ==\n  *(1) Scan" + " a" * 200
    answer(gateway, "SELECT plan", (Column(name="plan"),), [plan])

    page.run("SELECT plan")

    assert (page.shown.one("h2").text, raw(page.shown.one("pre"))) == ("plan", f"\n{plan}")
    assert page.shown.every("table") == []


def test_a_job_that_may_go_on_leads_to_the_jobs(page: SqlPage, gateway: Gateway) -> None:
    insert = "INSERT INTO t SELECT * FROM s"
    gateway.engine.answers[insert] = StatementResult(is_query=False, rows=None)

    page.run(insert)

    assert page.headings == ["job id STRING"]
    assert page.shown.one("p", class_="after").one("a").attributes["href"] == "/ui/jobs"


def test_numbers_over_instants_can_be_drawn(page: SqlPage, gateway: Gateway) -> None:
    columns = (Column(name="city"), Column(name="n", type=INT), Column(name="at", type=TIMESTAMP))
    rows = [["b", 2, "1970-01-01T00:01:00"], ["a", None, "1970-01-01T00:00:30"], ["c", 3, None]]
    answer(gateway, "SELECT t", columns, *rows)
    page.run("SELECT t")

    drawing = page.http.get(f"{page.address}/chart").json()

    assert drawing == {
        "x": {"name": "at", "values": [30.0, 60.0]},
        "is_time": True,
        "series": [{"name": "n", "values": [None, 2.0]}],
        "rows": 3,
        "total": 3,
    }


def test_what_cannot_be_drawn_is_not_offered(page: SqlPage) -> None:
    page.run("SELECT 1")

    assert page.shown.every("button") == []
    assert page.http.get(f"{page.address}/chart").status_code == 404


# ----------------------------------------------------------------------------------------------------- errors


def test_an_error_shows_its_line_with_the_token_and_the_lines_around_it(
    page: SqlPage, gateway: Gateway
) -> None:
    sql = "SELECT a,\n  missing\nFROM t\nWHERE b\nGROUP BY c"
    gateway.engine.answers[sql] = QueryFailed("[NO_COLUMN] missing is no column.", line=2, position=3)

    page.run(f"SELECT 1;\n{sql}")

    lines = page.shown.one("ol", class_="lines").every("li")
    assert [line.one(class_="line-number").text for line in lines] == ["2", "3", "4", "5"]
    assert [raw(line.one("code")) for line in lines] == ["SELECT a,", "  missing", "FROM t", "WHERE b"]
    assert [mark.text for mark in page.shown.every("mark")] == ["missing"]
    assert page.trouble[0] == "[NO_COLUMN] missing is no column."


# --------------------------------------------------------------------------------------------------- sessions


def test_a_browser_has_one_session_for_all_its_scripts(visit: Visit, gateway: Gateway) -> None:
    first, second = visit(), visit()
    for each in (first, first, second):
        each.open()
        each.run("SELECT 1")

    sessions = [context.session_id for context, _ in gateway.engine.executed]
    assert (len(gateway.sessions), len(set(sessions[:2])), len(set(sessions))) == (2, 1, 2)


def test_a_script_belongs_to_its_visitor_alone(visit: Visit) -> None:
    own, other = visit(), visit()
    own.run("SELECT 1")
    other.run("SELECT 1")

    other.open(own.address)

    assert (other.status, other.shown.text.partition(".")[0]) == (404, "This result is no longer here")
    assert other.http.get(f"{own.address}/chart").status_code == 404


def test_a_part_that_is_kept_up_says_that_its_session_has_ended(page: SqlPage, gateway: Gateway) -> None:
    stream(gateway, FakeRows([1]))
    page.run("SELECT slow")
    gateway.sessions.close_all()

    part = page.http.get(page.address, headers={"HX-Request": "true", "HX-Target": "run"})

    shown = document_of(part.text).one("section", id="run")
    assert (part.status_code, shown.text.startswith("This result is no longer here.")) == (200, True)
    assert "data-every" not in shown.attributes


def test_the_session_ends_when_it_is_idle_and_its_results_with_it(page: SqlPage, gateway: Gateway) -> None:
    page.run("SELECT 1")
    address = page.address
    gateway.clock.advance(timedelta(minutes=9))
    page.reload()
    gateway.clock.advance(timedelta(minutes=9))
    kept = gateway.sessions.expire_idle()
    gateway.clock.advance(timedelta(minutes=2))
    closed = gateway.sessions.expire_idle()

    page.open(address)

    assert (kept, len(closed), page.status) == ([], 1, 404)


def test_after_a_session_with_settings_ended_a_statement_is_run_only_if_it_is_sent_again(
    page: SqlPage, gateway: Gateway
) -> None:
    page.run("USE lake.shop")
    gateway.sessions.close_all()

    page.run("SELECT 1")
    refused, before = page.trouble[0], executed(gateway)
    page.run("SELECT 1")

    assert refused.startswith("Your session ended, because it was idle or because the gateway was restarted")
    assert "temporary objects and the effects of SET and USE are gone" in refused
    assert before == ["USE lake.shop"]
    assert page.rows == [["1", "1"]]


def test_after_a_session_without_settings_ended_the_next_one_begins_silently(
    page: SqlPage, gateway: Gateway
) -> None:
    page.run("SELECT 1")
    gateway.sessions.close_all()

    page.run("SELECT 1")

    assert (page.outcomes, page.rows) == (["done"], [["1", "1"]])


def test_the_oldest_result_is_closed_for_the_eleventh(page: SqlPage, gateway: Gateway) -> None:
    page.run("SELECT 1")
    oldest = page.address
    for _ in range(10):
        page.run("SELECT 1")

    [session] = gateway.sessions.views()
    assert len(session.operations) == 10
    page.open(oldest)
    assert page.status == 404


def test_more_than_ten_running_scripts_are_refused_in_words(page: SqlPage, gateway: Gateway) -> None:
    every = [stream(gateway, FakeRows([1]), f"SELECT {number}") for number in range(10, 21)]
    for number in range(10, 20):
        page.run(f"SELECT {number}")

    page.run("SELECT 20")

    assert (page.status, page.shown.one("p").text) == (
        503,
        "10 of your statements are running, which is the limit; stop one, or wait for it.",
    )
    assert raw(page.page.one("textarea")) == "\nSELECT 20"
    for rows in every:
        rows.end()


# ------------------------------------------------------------------------------------------------- completion


def test_completion_answers_what_the_terminal_offers(page: SqlPage, gateway: Gateway) -> None:
    tables = RowSet(columns=(Column(name="table name"),), rows=[["orders"], ["others"]])
    gateway.engine.answers["SHOW TABLES"] = StatementResult(is_query=False, rows=tables)
    form = page.page.one("form", id="editor")
    key = form.one("input", name="csrf").attributes.get("value", "")

    answered = page.http.post(
        form.attributes.get("data-complete", ""),
        data={"csrf": key, "statement": "SELECT * FROM ord", "position": "17"},
    )

    assert answered.json() == {"length": 3, "candidates": ["orders"]}


def test_completions_that_wait_for_names_hold_nobody_up(page: SqlPage, gateway: Gateway, switch: Any) -> None:
    key = page.page.one("form", id="editor").one("input", name="csrf").attributes["value"]
    may_answer, asked = Event(), Semaphore(0)

    def names(_session: Any) -> Any:
        asked.release()
        assert may_answer.wait(9)
        raise RequestInvalid("enough")

    switch.app = app_of(replace(gateway.services, names=names))
    with ThreadPoolExecutor(45) as typists:
        typed = [typists.submit(page.http.post, "/ui/sql/complete", data={"csrf": key}) for _ in range(45)]
        try:
            assert all(asked.acquire(timeout=5) for _ in typed)
            shown = httpx.get(gateway.http.base_url.join("/ui/"), timeout=5).status_code
        finally:
            may_answer.set()

    assert shown == 200


# ------------------------------------------------------------------------------------------------------ roles


def signed_in(visit: Visit, gateway: Gateway, switch: Any, token: str) -> SqlPage:
    tokens = parse_tokens("ann:sql:geheim,bob:read:lesen")
    switch.app = app_of(replace(gateway.services, tokens=tokens))
    page = visit()
    page.http.post("/ui/sign-in", data={"token": token, "to": ""})
    page.open()
    return page


def test_the_role_read_gets_words_and_no_editor(visit: Visit, gateway: Gateway, switch: Any) -> None:
    page = signed_in(visit, gateway, switch, "lesen")

    assert page.page.every("form", id="editor") == []
    assert "You are signed in as bob with the role read" in page.page.one("main").text


@pytest.mark.parametrize("path", ["/ui/sql", "/ui/sql/complete", "/ui/sql/operations/x/stop"])
def test_the_role_read_may_run_nothing(visit: Visit, gateway: Gateway, switch: Any, path: str) -> None:
    reader = signed_in(visit, gateway, switch, "lesen")
    tokens = parse_tokens("ann:sql:geheim,bob:read:lesen")
    cookie = reader.http.cookies[f"freshtable-ui-{reader.http.base_url.port}"]
    visitor = VisitorCookies.of(tokens).visitor(cookie, gateway.clock.now())
    assert visitor is not None

    refused = reader.http.post(path, data={"statement": "SELECT 1", "csrf": visitor.csrf})

    assert (refused.status_code, "which may only read" in refused.text) == (403, True)
    assert (executed(gateway), len(gateway.sessions)) == ([], 0)


def test_a_session_belongs_to_the_token_of_its_visitor(visit: Visit, gateway: Gateway, switch: Any) -> None:
    page = signed_in(visit, gateway, switch, "geheim")

    page.run("SELECT 1")

    [session] = gateway.sessions.views()
    assert (session.owner, session.name, page.rows) == ("ann", "page", [["1", "1"]])


@pytest.mark.parametrize("path", ["/ui/sql", "/ui/sql/complete", "/ui/sql/operations/x/stop"])
def test_a_form_without_the_key_of_the_page_does_nothing(page: SqlPage, gateway: Gateway, path: str) -> None:
    refused = page.http.post(path, data={"statement": "SELECT 1"})

    assert (refused.status_code, executed(gateway), len(gateway.sessions)) == (403, [], 0)
