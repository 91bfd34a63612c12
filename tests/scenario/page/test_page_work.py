"""What visitors see of jobs, sessions and the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.base.background import LoopState
from mt_core.gateway.facts.json_form import session_id
from mt_core.model.connector_table import ConnectorTable, GeneratedRows
from mt_core.model.partition import PartitionSpec
from mt_core.tables.registry import in_transaction
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import Element, document_of
from tests.support.page_visit import Visits, visits_of

HOURLY = "CREATE MATERIALIZED TABLE {} FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM {}"
ENDLESS = ConnectorTable(
    name="`lake`.`default`.`orders`",
    columns=("`id` INT",),
    clauses="",
    connector="datagen",
    query="SELECT 1 AS id",
    unbounded=GeneratedRows(items=("value",), rows_per_second=1),
)
KEPT = "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '10' SECOND AS SELECT * FROM orders"


@pytest.fixture
def visits(whole: WholeGateway) -> Iterator[Visits]:
    with visits_of(whole.services) as visits:
        yield visits


def section(page: Element, id_: str) -> Element:
    return page.one("section", aria_labelledby=id_)


# ------------------------------------------------------------------------------------------------------ jobs


def test_without_work_each_part_says_that_there_is_none(visits: Visits) -> None:
    page = visits.browser().get("/jobs")

    assert page.one("h1").text == "Jobs"
    assert "No refresh and no statement is running." in section(page, "running").text
    assert "0 of 3 refresh workers busy" in section(page, "running").text
    assert "No refresh is waiting." in section(page, "waiting").text
    assert "No streaming job is open" in section(page, "streams").text
    assert "None." in section(page, "ended").text
    assert page.rows() == []


def test_running_and_waiting_refreshes_say_who_asked_and_what_they_wait_for(
    whole: WholeGateway, visits: Visits
) -> None:
    whole.sql(HOURLY.format("totals", "orders"))
    whole.wait_quiet()
    browser, hold = visits.browser(), whole.hold_write("totals")
    [table] = whole.http.get("/freshtable/v1/tables").json()["tables"]
    browser.send(f"/tables/{table['id']}/refresh")
    assert hold.entered.wait(60)
    browser.send(f"/tables/{table['id']}/refresh")
    whole.clock.advance(timedelta(seconds=75))

    page = browser.get("/jobs")
    reader = visits.browser("lesen").get("/jobs")
    hold.release()
    whole.wait_quiet()

    [running] = section(page, "running").rows()
    [waiting] = section(page, "waiting").rows()
    assert running[:2] == ["lake.default.totals", "manual refresh"]
    assert running[3:] == ["1 min 15 s", "ann", "-", "Cancel"]
    assert waiting == [
        "-", "lake.default.totals", "manual refresh", "1 min 15 s",
        "the refresh of this table that is running", "-", "ann", "Cancel",
    ]  # fmt: skip
    assert "1 of 3 refresh workers busy" in section(page, "running").text
    assert [row[:1] for row in section(reader, "running").rows()] == [running[:1]]
    assert "Cancel" not in section(reader, "running").text + section(reader, "waiting").text


def test_pages_of_running_refreshes_wait_for_no_transaction(whole: WholeGateway, visits: Visits) -> None:
    whole.sql(HOURLY.format("totals", "orders"))
    whole.wait_quiet()
    hold = whole.hold_write("totals")
    whole.refresh("lake.default.totals")
    assert hold.entered.wait(60)
    [table] = whole.http.get("/freshtable/v1/tables").json()["tables"]
    browser = visits.browser()

    with whole.process.registry.transaction():
        jobs = browser.get("/jobs")
        shown = browser.get(f"/tables/{table['id']}")
        [run] = [link for link in shown.one(id="head").every("a") if link.text == "Details"]
        browser.get(run.attributes["href"].removeprefix("/ui"))
    hold.release()
    whole.wait_quiet()

    assert len(section(jobs, "running").rows()) == 1


def test_refreshes_stand_in_the_order_in_which_workers_take_them(whole: WholeGateway, visits: Visits) -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        whole.sql(HOURLY.format(name, "orders"))
    whole.wait_quiet()
    holds = [whole.hold_write(name) for name in names[:3]]
    for name in names:
        whole.refresh(f"lake.default.{name}")
    for hold in holds:
        assert hold.entered.wait(60)

    rows = section(visits.browser().get("/jobs"), "waiting").rows()
    for hold in holds:
        hold.release()
    whole.wait_quiet()

    assert [row[0:3] + row[4:5] for row in rows] == [
        ["1", "lake.default.d", "manual refresh", "a worker"],
        ["2", "lake.default.e", "manual refresh", "a worker"],
    ]


def test_a_refresh_that_waits_for_another_table_names_it_and_until_when(
    whole: WholeGateway, visits: Visits
) -> None:
    whole.sql(EVERY_10_S.format("below", "orders"))
    whole.wait_quiet()
    whole.sql(EVERY_10_S.format("above", "below"))
    whole.wait_quiet()
    hold = whole.hold_write("below")
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.tick(seconds=10)
    assert hold.entered.wait(60)
    whole.wait_until(lambda: any(row["status"] == "QUEUED" for row in whole.refreshes()))

    [row] = section(visits.browser().get("/jobs"), "waiting").rows()
    hold.release()
    whole.wait_quiet()

    assert row[:3] == ["-", "lake.default.above", "scheduled refresh"]
    assert row[4].startswith("lake.default.below")
    assert row[5].startswith("12:")


def test_failed_refreshes_in_the_zone_of_their_table_and_ended_statements_are_listed_for_a_day(
    whole: WholeGateway, visits: Visits
) -> None:
    whole.sql("SET 'table.local-time-zone' = 'Europe/Rome'")
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.pass_time(seconds=10)
    whole.pass_time(seconds=10)
    whole.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    whole.sql("VERIFY MATERIALIZED TABLE often")
    browser = visits.browser("lesen")

    page = browser.get("/jobs")
    whole.pass_time(hours=25)
    later = browser.get("/jobs")

    [failed] = section(page, "failed").rows()
    [ended] = section(page, "ended").rows()
    assert failed[:4] == ["13:00:20", "2", "lake.default.often", "scheduled refresh"]
    assert failed[5]
    assert ended[:3] == ["✓ finished", "verify-often", "verify"]
    assert not later.every("section", aria_labelledby="failed")
    assert section(later, "ended").rows() == []


def test_ended_statements_are_paged(
    whole: WholeGateway, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mt_core.gateway.page.work.jobs.ENDED", 2)
    whole.sql(HOURLY.format("totals", "orders"))
    for _ in range(3):
        whole.sql("VERIFY MATERIALIZED TABLE totals")
        whole.clock.advance(timedelta(seconds=1))
    browser = visits.browser()

    first = browser.get("/jobs")
    second = browser.get(first.one("a", rel="next").attributes["href"].removeprefix("/ui"))

    jobs = {
        each.attributes["title"]
        for page in (first, second)
        for each in section(page, "ended").every("td", data_label="Job")
    }
    assert (len(section(first, "ended").rows()), len(section(second, "ended").rows())) == (2, 1)
    assert len(jobs) == 3
    assert not second.every("section", aria_labelledby="running")
    assert not second.every("a", rel="next")


def test_streams_show_their_batches_and_restarts_those_in_trouble_first(
    whole: WholeGateway, visits: Visits
) -> None:
    for number in (1, 2):
        whole.start_stream(str(number) * 32)
    whole.run_batch("x", "y")
    whole.streams.fail("2" * 32, "no space left on device")
    whole.watch_streams()

    page = visits.browser().get("/jobs")

    first, second = section(page, "streams").rows()
    assert first[:3] == ["↻ restarting", "insert-t", "streaming job"]
    assert first[7].startswith("1 failure in a row, next start 12:00:")
    assert (second[0], second[5], second[6], second[8]) == ("▶ running", "number 0", "0", "Cancel")
    assert section(page, "running").rows() == []


def test_the_stream_of_a_table_is_shown_as_the_table_and_is_suspended_with_it(
    whole: WholeGateway, visits: Visits
) -> None:
    in_transaction(whole.process.registry, lambda tx: tx.connector_tables.put(ENDLESS))
    whole.perform(KEPT)
    whole.watch_streams()
    browser = visits.browser()
    [table] = whole.http.get("/freshtable/v1/tables").json()["tables"]

    page = browser.get("/jobs")
    [job] = whole.perform("SHOW JOBS LIKE 'refresh-%'")
    to = browser.follow(browser.http.get(f"/ui/jobs/{job['job id']}/cancel"))
    refused = browser.get(f"/tables/{table['id']}/verify")

    [row] = section(page, "streams").rows()
    assert [*row[:3], row[8]] == ["▶ running", "lake.default.kept", "table of a stream", "Suspend"]
    assert to == f"/tables/{table['id']}/suspend"
    assert "a streaming job maintains the table" in refused.one("section", id="dialog").text


def test_a_name_is_text_on_every_page_about_work(whole: WholeGateway, visits: Visits) -> None:
    name = 'it\'s "ü" <script>``'
    whole.sql(HOURLY.format(f"`{name}`", "orders"))
    whole.wait_quiet()
    whole.sql(f"VERIFY MATERIALIZED TABLE `{name}`")
    whole.http.post("/v3/sessions", json={"sessionName": "<img src=x>", "properties": {}})
    [table] = whole.http.get("/freshtable/v1/tables").json()["tables"]
    browser = visits.browser()
    hold = whole.hold_write(name.replace("``", "`"))
    browser.send(f"/tables/{table['id']}/refresh")
    assert hold.entered.wait(60)

    pages = [browser.get(path) for path in ("/jobs", "/sessions", f"/tables/{table['id']}/suspend")]
    hold.release()
    whole.wait_quiet()

    shown = f"lake.default.`{name}`"
    assert shown in section(pages[0], "running").text
    assert "<img src=x>" in pages[1].text
    assert shown in pages[2].one("section", id="dialog").text
    assert not any(page.every("img", src="x") for page in pages)


def test_a_part_that_shows_what_is_still_right_is_not_sent_again(whole: WholeGateway, visits: Visits) -> None:
    whole.sql(HOURLY.format("totals", "orders"))
    whole.wait_quiet()
    browser = visits.browser()
    for path, block in (("/jobs", "work"), ("/sessions", "sessions"), ("/gateway", "gateway")):
        since = browser.get(path).one(id=block).attributes["data-version"]

        unchanged = browser.part(path, block, since)
        other = browser.part(path, block, "another")

        assert (unchanged.status_code, unchanged.content) == (204, b"")
        assert other.status_code == 200
        assert document_of(other.text).one(id=block)

    before = browser.get("/jobs").one(id="work").attributes["data-version"]
    whole.refresh("lake.default.totals")
    whole.wait_quiet()
    assert browser.part("/jobs", "work", before).status_code == 200


def test_an_unknown_parameter_is_refused(visits: Visits) -> None:
    browser = visits.browser()

    for path in ("/jobs?page=2", "/jobs?after=x", "/jobs?done=x", "/sessions?x=1", "/gateway?x=1"):
        browser.get(path, status=400)


# -------------------------------------------------------------------------------------------------- sessions


def test_sessions_show_their_work_and_masked_properties_but_no_handle(
    whole: WholeGateway, visits: Visits
) -> None:
    opened = whole.http.post(
        "/v3/sessions", json={"sessionName": "nightly", "properties": {"my.password": "hunter2", "a.b": "c"}}
    )
    handle = opened.json()["sessionHandle"]
    whole.clock.advance(timedelta(minutes=3))

    answer = visits.browser("lesen").http.get("/ui/sessions")

    page = document_of(answer.text)
    row = page.one("tr", id=f"s-{session_id(handle)}")
    cells = [cell.text for cell in row.every("td")]
    assert cells[:5] == [f"nightly {session_id(handle)[:8]}", "-", "3 min", "3 min", "none"]
    facts = row.facts()
    assert (facts["my.password"], facts["a.b"]) == ("***", "c")
    assert handle not in answer.text
    assert "hunter2" not in answer.text


def test_looking_at_sessions_keeps_none_open(whole: WholeGateway, visits: Visits) -> None:
    whole.http.post("/v3/sessions", json={})
    browser = visits.browser()
    whole.clock.advance(timedelta(minutes=9))
    browser.get("/sessions")
    whole.clock.advance(timedelta(minutes=2))

    assert whole.services.sessions.expire_idle()
    assert "No session is open." in browser.get("/sessions").text


# --------------------------------------------------------------------------------------------------- gateway


def findings(page: Element) -> dict[str, str]:
    return {
        each.one("span", class_="subject").text: each.one("span", class_="text").text
        for each in page.one("ul", class_="checks").every("li")
    }


def test_the_gateway_says_how_it_fares(whole: WholeGateway, visits: Visits) -> None:
    whole.sql(HOURLY.format("totals", "orders"))
    whole.wait_quiet()

    page = visits.browser("lesen").get("/gateway")

    found = findings(page)
    assert page.one("h1").text == "Gateway"
    assert "started" in page.one("main").text
    assert found["Spark ok"] == "accepts work"
    assert found["workers ok"] == "0 of 3 busy"
    assert found["tables ok"] == "1 materialized table, all read"
    assert found["access ok"].startswith("4 tokens, ")
    assert found["memory ok"].startswith("the gateway's process occupies ")


def test_what_is_wrong_with_the_gateway_is_counted_and_says_what_to_do(whole: WholeGateway) -> None:
    def loops() -> list[LoopState]:
        every = timedelta(seconds=30)
        return [
            LoopState(name="reconciler", every=every, succeeded_at=whole.clock.now(), failures=0),
            LoopState(name="maintenance", every=every, succeeded_at=None, failures=4),
        ]

    services = replace(
        whole.services,
        facts=replace(whole.services.facts, loops=loops),
        engine_trouble=lambda: "Spark <is> starting.",
        scheduler_trouble=lambda: "Airflow has not started a DAG for 10 min.",
    )
    with visits_of(services) as visits:
        page, jobs = visits.browser().get("/gateway"), visits.browser().get("/jobs")

    found = findings(page)
    assert page.one("h2", id="health").text == "3 problems"
    assert found["Spark problem"] == "Spark <is> starting."
    assert found["scheduler problem"] == "Airflow has not started a DAG for 10 min."
    assert found["loops problem"] == "maintenance does not succeed"
    rows = section(page, "loops").rows()
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        ("reconciler", "30 s", "0 s ago", "✓ working"),
        ("maintenance", "30 s", "not yet", "✕ failing its last 4 passes failed"),
    ]
    assert "Spark accepts no work. Spark <is> starting." in jobs.one(id="work").text
