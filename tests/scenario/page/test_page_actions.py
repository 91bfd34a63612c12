"""Visitors refresh, suspend, resume and verify tables, and cancel refreshes and jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.gateway.whole import DAILY, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import document_of
from tests.support.page_visit import Browser, Visits, visits_of

HOURLY = (
    "CREATE MATERIALIZED TABLE {} FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM orders"
)


@pytest.fixture
def visits(whole: WholeGateway) -> Iterator[Visits]:
    with visits_of(whole.services) as visits:
        yield visits


@pytest.fixture
def table(whole: WholeGateway) -> str:
    """The page of the table `totals`, which was refreshed once."""
    whole.sql(HOURLY.format("totals"))
    whole.wait_quiet()
    return page_of(whole, "totals")


def page_of(whole: WholeGateway, name: str) -> str:
    tables = whole.http.get("/freshtable/v1/tables").json()["tables"]
    [found] = [each["id"] for each in tables if each["table"] == name]
    return f"/tables/{found}"


def status_of(whole: WholeGateway, name: str) -> tuple[str, str]:
    """Return the status of a table, and who changed it."""
    found = whole.http.get(f"/freshtable/v1{page_of(whole, name)}").json()
    return found["status"], found["status_by"]


def error_of(answer: httpx.Response) -> str:
    return document_of(answer.text).one(role="alert").text


# --------------------------------------------------------------------------------- who may, and with what key

ACTIONS = ["refresh", "suspend", "resume", "verify"]


def test_a_visitor_who_may_only_read_is_refused_in_words_and_changes_nothing(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser, before = visits.browser("lesen"), whole.state()

    for action in ACTIONS:
        form = browser.get(f"{table}/{action}", status=403)
        answer = browser.http.post(f"/ui{table}/{action}", data={"csrf": browser.key})

        assert "bob with the role read, which may only read" in form.one("main").text
        # A part of a page that was refused is not asked for again.
        assert "data-every" not in form.one(id="gateway-status").attributes
        assert (answer.status_code, "which may only read" in answer.text) == (403, True)
    assert whole.state() == before


def test_a_form_without_the_key_of_the_visitor_changes_nothing(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser, before = visits.browser(), whole.state()
    of_another = visits.browser("chef").key

    for action in ACTIONS:
        for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": of_another}):
            answer = browser.http.post(f"/ui{table}/{action}", data=fields)

            assert answer.status_code == 403
            assert "does not contain the key of this page" in answer.text
    assert whole.state() == before


def test_what_does_not_exist_is_not_found_in_words(visits: Visits) -> None:
    browser = visits.browser()

    for path in (*(f"/tables/none/{action}" for action in ACTIONS), "/runs/none/cancel", "/jobs/none/cancel"):
        page = browser.get(path, status=404)
        answer = browser.http.post(f"/ui{path}", data={"csrf": browser.key})

        assert "There is no " in page.one("main").text
        assert answer.status_code == 404


# ---------------------------------------------------------------------------------------------------- refresh


def test_a_refresh_is_requested_in_the_visitors_name(whole: WholeGateway, visits: Visits, table: str) -> None:
    browser = visits.browser()

    answer = browser.send(f"{table}/refresh")
    whole.wait_quiet()

    [_, (run_id, kind, status, by)] = whole.show("refresh", "kind", "status", "requested by", name="totals")
    assert (kind, status, by) == ("MANUAL", "SUCCEEDED", "ann")
    assert browser.follow(answer) == f"{table}?run={run_id}&done=requested"


def test_a_refresh_of_one_partition_refreshes_only_that(whole: WholeGateway, visits: Visits) -> None:
    whole.sql(DAILY)
    whole.wait_quiet()
    browser, table = visits.browser(), page_of(whole, "daily")
    form = browser.get(f"{table}/refresh")

    browser.submit(form, **{"partition.ds": "2026-03-01"})
    whole.wait_quiet()

    assert [label.text for label in form.every("label")] == ["ds"]
    assert whole.show("partitions")[-1] == "ds=2026-03-01"


def test_a_wrong_partition_is_refused_on_the_form_which_keeps_what_was_written(
    whole: WholeGateway, visits: Visits
) -> None:
    whole.sql(DAILY)
    whole.wait_quiet()
    browser, table = visits.browser(), page_of(whole, "daily")
    before = whole.state()

    answer = browser.send(f"{table}/refresh", **{"partition.ds": 'the "1st" <b>'})

    page = document_of(answer.text)
    assert answer.status_code == 400
    assert 'the "1st" <b>' in page.one(role="alert").text
    assert page.one("input", name="partition.ds").attributes["value"] == 'the "1st" <b>'
    assert whole.state() == before
    corrected = browser.submit(page, **{"partition.ds": "2026-03-01"})
    assert corrected.status_code == 303


def test_a_form_that_is_sent_twice_requests_one_refresh(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser = visits.browser()
    form = browser.get(f"{table}/refresh")

    first, second = browser.submit(form), browser.submit(form)
    whole.wait_quiet()
    later = browser.submit(form)

    assert browser.follow(first) == browser.follow(second) == browser.follow(later)
    assert whole.show("kind", name="totals") == ["INITIAL", "MANUAL"]


def test_two_forms_are_two_refreshes(whole: WholeGateway, visits: Visits, table: str) -> None:
    browser = visits.browser()

    for _ in range(2):
        browser.send(f"{table}/refresh")
        whole.wait_quiet()

    assert whole.show("kind", name="totals") == ["INITIAL", "MANUAL", "MANUAL"]


# ----------------------------------------------------------------------------------------- suspend and resume


def test_a_table_is_suspended_and_resumed_in_the_visitors_name(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser = visits.browser()

    suspended = browser.send(f"{table}/suspend")
    after_suspend = status_of(whole, "totals")
    resumed = browser.send(f"{table}/resume")
    after_resume = status_of(whole, "totals")

    assert browser.follow(suspended) == f"{table}?done=suspended"
    assert after_suspend == ("SUSPENDED", "ann")
    assert browser.follow(resumed) == f"{table}?done=resumed"
    assert after_resume == ("ACTIVATED", "ann")
    # The sessions of the statements are closed.
    assert [view.name for view in whole.services.sessions.views() if view.name == "page"] == []


def test_who_acts_on_a_gateway_without_tokens_is_sql(whole: WholeGateway, table: str) -> None:
    with httpx.Client(base_url=whole.http.base_url) as http:
        answer = Browser(http).send(f"{table}/suspend")

    assert answer.status_code == 303
    assert status_of(whole, "totals") == ("SUSPENDED", "SQL")


def test_suspending_twice_with_one_form_is_harmless_and_with_another_says_by_whom(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser = visits.browser()
    form, other = browser.get(f"{table}/suspend"), browser.get(f"{table}/suspend")

    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: browser.submit(form), range(3)))
    again = browser.submit(other)

    assert {browser.follow(answer) for answer in answers} == {f"{table}?done=suspended"}
    assert again.status_code == 409
    assert "has been suspended already, by ann" in error_of(again)
    assert "suspended already, by ann" in browser.get(f"{table}/suspend").one("section", id="dialog").text


def test_missed_schedule_times_are_skipped_if_the_visitor_says_so(
    whole: WholeGateway, visits: Visits
) -> None:
    whole.sql(DAILY)
    whole.wait_quiet()
    browser, table, refreshed = visits.browser(), page_of(whole, "daily"), list[str]()

    for field in ({}, {"skip-missed": "yes"}):
        browser.send(f"{table}/suspend")
        whole.pass_time(days=3)
        browser.send(f"{table}/resume", **field)
        whole.wait_quiet()
        refreshed.append(whole.show("partitions")[-1])

    assert refreshed == ["ds=2026-03-01, ds=2026-03-02, ds=2026-03-03", "ds=2026-03-06"]


def test_a_statement_that_waits_for_spark_is_accepted_and_continues(
    whole: WholeGateway, visits: Visits, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mt_core.gateway.page.actions.statements.WAIT_S", 0.05)
    browser = visits.browser()

    whole.statements.ready.clear()
    answer = browser.send(f"{table}/suspend")
    during = browser.get("/sessions")
    whole.statements.ready.set()
    whole.wait_until(lambda: whole.facts("totals")["status"].startswith("SUSPENDED"))

    assert browser.follow(answer) == f"{table}?done=suspending"
    assert "ALTER_MATERIALIZED_TABLE" in during.text


# ----------------------------------------------------------------------------------------------------- verify


def test_a_table_is_verified_in_the_visitors_name(whole: WholeGateway, visits: Visits, table: str) -> None:
    browser = visits.browser()

    answer = browser.send(f"{table}/verify", percent="10 %")
    everything = browser.send(f"{table}/verify")

    assert browser.follow(answer) == browser.follow(everything) == f"{table}?done=verified"
    found = whole.show("kind", "status", "requested by", name="totals")[1:]
    assert found == [("VERIFY", "SUCCEEDED", "ann")] * 2


def test_a_sample_that_is_no_percentage_is_refused_on_the_form(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser, before = visits.browser(), whole.state()

    for sample in ("0", "101", "-1", "many", "1; DROP TABLE x", "<b>"):
        answer = browser.send(f"{table}/verify", percent=sample)

        assert answer.status_code == 400
        assert f"not '{sample}'" in error_of(answer)
    assert whole.state() == before


# ----------------------------------------------------------------------------------------------------- cancel


def test_a_running_refresh_is_cancelled(whole: WholeGateway, visits: Visits, table: str) -> None:
    browser, hold = visits.browser(), whole.hold_write("totals")
    requested = browser.follow(browser.send(f"{table}/refresh"))
    assert hold.entered.wait(60)
    run_id = requested.partition("run=")[2].partition("&")[0]

    listed = browser.get("/jobs").one("section", aria_labelledby="running")
    answer = browser.send(f"/runs/{run_id}/cancel")
    hold.release()
    whole.wait_quiet()

    assert listed.one("a", data_dialog="").attributes["href"] == f"/ui/runs/{run_id}/cancel"
    assert browser.follow(answer) == f"{table}?run={run_id}&done=canceling"
    assert whole.show("status", name="totals") == ["SUCCEEDED", "CANCELED"]
    again = browser.get(f"/runs/{run_id}/cancel")
    assert "The refresh is CANCELED and can no longer be cancelled." in again.text
    assert not again.one("section", id="dialog").every("form")


def test_a_waiting_refresh_is_cancelled_with_all_requests_for_it(
    whole: WholeGateway, visits: Visits, table: str
) -> None:
    browser, hold = visits.browser(), whole.hold_write("totals")
    browser.send(f"{table}/refresh")
    assert hold.entered.wait(60)
    waits = [
        browser.follow(browser.send(f"{table}/refresh")).partition("run=")[2].partition("&")[0]
        for _ in range(2)
    ]

    form = browser.get(f"/runs/{waits[0]}/cancel")
    answer = browser.submit(form)
    hold.release()
    whole.wait_quiet()

    assert "1 more request waits for this refresh and is cancelled with it." in form.text
    assert browser.follow(answer) == f"{table}?run={waits[0]}&done=canceled"
    assert whole.show("status", name="totals") == ["SUCCEEDED", "SUCCEEDED", "CANCELED", "COALESCED"]


@pytest.mark.parametrize("kind", ["runs", "jobs"])
def test_who_may_only_read_cancels_nothing(
    whole: WholeGateway, visits: Visits, table: str, kind: str
) -> None:
    hold = whole.hold_write("totals")
    requested = visits.browser().follow(visits.browser().send(f"{table}/refresh"))
    assert hold.entered.wait(60)
    run_id = requested.partition("run=")[2].partition("&")[0]
    job_id = str(whole.show("job", name="totals")[-1]) if kind == "jobs" else run_id
    reader = visits.browser("lesen")

    page = reader.get("/jobs")
    refused = reader.get(f"/{kind}/{job_id}/cancel", status=403)
    answer = reader.http.post(f"/ui/{kind}/{job_id}/cancel", data={"csrf": reader.key})
    without_key = visits.browser().http.post(f"/ui/{kind}/{job_id}/cancel")
    hold.release()
    whole.wait_quiet()

    assert not page.every("a", data_dialog="")
    assert "which may only read" in refused.text
    assert (answer.status_code, without_key.status_code) == (403, 403)
    assert whole.show("status", name="totals") == ["SUCCEEDED", "SUCCEEDED"]


def test_a_running_statement_is_cancelled_in_the_visitors_name(
    whole: WholeGateway, visits: Visits, caplog: pytest.LogCaptureFixture
) -> None:
    insert = "INSERT INTO t SELECT 1"
    hold, browser = whole.statements.hold(insert), visits.browser()
    whole.client.execute(insert)
    hold.wait_entered()
    [row] = browser.get("/jobs").one("section", aria_labelledby="running").every("tr")[1:]
    link = row.one("a", data_dialog="").attributes["href"].removeprefix("/ui")

    with caplog.at_level(logging.INFO):
        answer = browser.send(link)
    hold.release()

    assert browser.follow(answer) == "/jobs?done=canceled"
    assert browser.get("/jobs?done=canceled").one("main").one("p", role="status").text == "✓ Cancelled."
    [job] = whole.sql("SHOW JOBS")
    assert (job["job name"], job["status"]) == ("insert-t", "CANCELED")
    begun = [vars(each) for each in caplog.records if vars(each).get("action") == "statement_begun"]
    assert [(each["by"], each["statement"]) for each in begun] == [("ann", "STOP_JOB")]
    again = browser.get(link)
    assert "The job is CANCELED and can no longer be cancelled." in again.one("section", id="dialog").text


def test_a_streaming_job_that_takes_long_to_stop_is_accepted(
    whole: WholeGateway, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mt_core.gateway.page.actions.statements.WAIT_S", 0.05)
    whole.start_stream("a" * 32)
    browser = visits.browser()

    answer = browser.send(f"/jobs/{'a' * 32}/cancel")
    whole.watch_streams(3)

    assert browser.follow(answer) == "/jobs?done=canceling"
    assert whole.job("a" * 32)["status"] == "CANCELED"
