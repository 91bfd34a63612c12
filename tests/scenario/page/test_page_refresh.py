"""One refresh on the page, and what the charts of its table show."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from mt_core.gateway.page.charts import curves
from mt_core.model.partition import PartitionSpec
from mt_core.model.run import Batch, RefreshRun, RunKind, RunStatus
from tests.support.gateway.whole import EVERY_10_S, START, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import Element, document_of
from tests.support.registry_facts import HOUR, a_run


def pages(whole: WholeGateway, path: str, **headers: str) -> httpx.Response:
    """Return the answer to a browser, which sends the cookie of its first visit."""
    return whole.http.get(f"/ui{path}", headers=headers)


def seen(whole: WholeGateway, run_id: str) -> Element:
    answer = pages(whole, f"/runs/{run_id}")
    assert answer.status_code == 200, answer.text
    return document_of(answer.text).one("main")


def runs(whole: WholeGateway, name: str = "often") -> list[str]:
    """Return the ids of the refreshes of a table, oldest first."""
    [found] = [
        each for each in whole.http.get("/freshtable/v1/tables").json()["tables"] if each["table"] == name
    ]
    listed = whole.http.get(f"/freshtable/v1/tables/{found['id']}/refreshes").json()["refreshes"]
    return [str(each["id"]) for each in reversed(listed)]


def table_id(whole: WholeGateway) -> str:
    [found] = whole.http.get("/freshtable/v1/tables").json()["tables"]
    return str(found["id"])


@pytest.fixture
def often(whole: WholeGateway) -> WholeGateway:
    """A gateway with the table `often`, which was refreshed once."""
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    return whole


def test_a_refresh_has_its_reason_its_steps_and_its_sources(often: WholeGateway) -> None:
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.pass_time(seconds=10)
    first, second = runs(often)

    main = seen(often, second)

    assert main.one("h1").text == "Refresh of lake.default.often"
    assert main.one("h1").one("a").attributes["href"] == f"/ui/tables/{table_id(often)}"
    assert main.one("h2", id="refresh-title").one("span", "run-status").text == "✓ succeeded"
    assert main.one("p", "headline").text == "Wrote 1 row by recompute in 0 s."
    facts = main.facts()
    assert (facts["Decision"], facts["Reason code"]) == ("refresh", "SOURCES_CHANGED")
    assert facts["Reason"].startswith("lake.default.orders changed")
    assert (facts["Requested"], facts["Attempt"], facts["Refresh id"]) == (
        "12:00:10 (0 s after the schedule time)", "1", second,
    )  # fmt: skip
    steps = main.one("svg", "steps").attributes["aria-label"]
    assert [step.split()[0] for step in steps.split(", ")][:4] == ["queue", "decide", "write", "publish"]
    [[name, kind, before, after, change]] = main.rows()
    assert (name, kind, change, before != after) == ("lake.default.orders", "table", "changed", True)
    [older] = main.every("a", rel="prev")
    assert older.attributes["href"] == f"/ui/runs/{first}"
    assert seen(often, first).one("a", rel="next").attributes["href"] == f"/ui/runs/{second}"


def test_a_failed_refresh_has_its_whole_error_as_text(often: WholeGateway) -> None:
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    often.pass_time(seconds=10)

    main = seen(often, runs(often)[-1])

    assert main.one("span", "run-status").text == "✕ failed"
    assert main.one("pre", "error").text == often.show("error", name="often")[-1]
    assert main.one("p", "headline").text == "Failed after 0 s while it wrote."


def test_a_queued_or_running_refresh_is_kept_up_and_can_be_cancelled(often: WholeGateway) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.tick(seconds=10)
    hold.wait_entered()
    run_id = runs(often)[-1]

    running = seen(often, run_id)
    part = running.one("section", id="refresh")
    since = part.attributes["data-version"]
    headers = {"HX-Request": "true", "HX-Target": "refresh"}
    same = often.http.get(f"/ui/runs/{run_id}", params={"since": since}, headers=headers)
    hold.release()
    often.wait_quiet()
    ended = often.http.get(f"/ui/runs/{run_id}", params={"since": since}, headers=headers)

    assert running.one("span", "run-status").text == "▶ running"
    assert part.one("a", "danger").attributes["href"] == f"/ui/runs/{run_id}/cancel"
    assert (part.attributes["data-every"], same.status_code, same.content) == ("2", 204, b"")
    [section] = document_of(ended.text).nodes[:1]
    assert isinstance(section, Element)
    assert (section.attributes["id"], "hx-get" in section.attributes) == ("refresh", False)
    assert section.one("span", "run-status").text == "✓ succeeded"
    assert section.every("a", "danger") == []


def test_a_refresh_that_cannot_be_read_says_why(often: WholeGateway, tmp_path: Path) -> None:
    often.pass_time(seconds=10)
    [_, newest] = runs(often)
    with closing(sqlite3.connect(tmp_path / "registry.db")) as connection, connection:
        connection.execute(f"UPDATE runs SET body = 'no json' WHERE run_id = '{newest}'")

    main = seen(often, newest)

    assert main.one("h1").text == "Refresh of lake.default.often"
    assert main.one("span", "run-status").text == "? cannot be read"
    assert newest in main.one("pre", "error").text
    assert main.facts()["Refresh id"] == newest


def test_an_unknown_refresh_is_a_page_that_says_so(often: WholeGateway) -> None:
    answer = pages(often, "/runs/no-such-run")

    assert answer.status_code == 404
    assert "Refresh no-such-run is not in the ledger" in document_of(answer.text).one("main").text


def test_the_refresh_of_a_dropped_table_remains_readable(often: WholeGateway) -> None:
    [run_id] = runs(often)
    often.sql("DROP MATERIALIZED TABLE often")

    main = seen(often, run_id)

    assert main.one("h1").text == "Refresh of a dropped table"
    assert main.one("span", "run-status").text == "✓ succeeded"


# --------------------------------------------------------------------------------------------------- curves


def curve(whole: WholeGateway, **parameters: str) -> dict[str, Any]:
    answer = whole.http.get(f"/ui/tables/{table_id(whole)}/curve", params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json()
    return body


def test_the_charts_show_staleness_promise_marks_and_refreshes(often: WholeGateway) -> None:
    for _ in range(3):
        often.pass_time(seconds=10)

    day = curve(often)

    noon = START.timestamp()
    assert (day["range"], day["zone"], day["to"], day["from"]) == (
        "24h", "UTC", noon + 30, noon + 30 - 86_400,
    )  # fmt: skip
    assert day["staleness"]["at"][:3] == [noon, noon + 10, noon + 10]
    assert day["staleness"]["seconds"][:3] == [0, 10, 0]
    assert set(day["staleness"]["promise"]) == {20}
    assert {mark["status"] for mark in day["marks"]} == {"SKIPPED"}
    assert sum(bar["times"] for bar in day["bars"]) == 4
    assert day["captions"]["refreshes"].startswith("4 refreshes: 1 succeeded, 3 skipped.")


def test_the_four_numbers_are_of_seven_days(often: WholeGateway) -> None:
    often.pass_time(seconds=10)
    path = f"/ui/tables/{table_id(often)}/numbers"

    body = often.http.get(path).json()
    same = often.http.get(path, params={"since": body["version"]})

    assert [(number["name"], number["value"], number["note"]) for number in body["numbers"]] == [
        ("Fresh", "100 %", "of 10 s"),
        ("Longest staleness", "10 s", "now"),
        ("Duration", "0 s", "median; 95 % at most 0 s"),
        ("Written a day", "2 rows", "2 B of sources read"),
    ]
    assert (same.status_code, same.content) == (204, b"")


def test_who_has_the_charts_is_sent_nothing_until_a_refresh_has_ended(often: WholeGateway) -> None:
    path = f"/ui/tables/{table_id(often)}/curve"
    known = curve(often, range="14d")["version"]

    same = often.http.get(path, params={"range": "14d", "since": known})
    other = often.http.get(path, params={"range": "1h", "since": known})
    often.pass_time(seconds=10)
    changed = often.http.get(path, params={"range": "14d", "since": known})

    assert (same.status_code, same.content) == (204, b"")
    assert (other.status_code, other.json()["range"]) == (200, "1h")
    assert len(changed.json()["bars"]) == 1
    assert changed.json()["captions"]["refreshes"].startswith("2 refreshes")


@pytest.mark.parametrize("query", ["range=2d", "from=2026-03-01T12:00:00Z", "range=1h&range=7d"])
def test_a_curve_with_another_parameter_is_refused(often: WholeGateway, query: str) -> None:
    answer = pages(often, f"/tables/{table_id(often)}/curve?{query}", **{"HX-Request": "true"})

    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert query.partition("=")[0] in answer.text


def test_the_curve_of_an_unknown_table_is_not_found(often: WholeGateway) -> None:
    answer = pages(often, "/tables/no-such-table/curve", **{"HX-Request": "true"})

    assert (answer.status_code, "no-such-table does not exist" in answer.text) == (404, True)


def test_the_curve_of_a_table_that_cannot_be_read_says_why(often: WholeGateway, tmp_path: Path) -> None:
    broken = table_id(often)
    with closing(sqlite3.connect(tmp_path / "registry.db")) as connection, connection:
        connection.execute("UPDATE materialized_tables SET body = '{\"version\": 7}', changed = changed + 99")

    answer = pages(often, f"/tables/{broken}/curve", **{"HX-Request": "true"})

    assert (answer.status_code, "has version 7" in answer.text) == (500, True)


def test_the_page_of_a_table_has_its_numbers_and_captions_without_scripts(often: WholeGateway) -> None:
    often.pass_time(seconds=10)
    answer = pages(often, f"/tables/{table_id(often)}?range=7d")

    charts = document_of(answer.text).one("section", id="charts")

    assert charts.one("a", aria_current="true").text == "7 d"
    assert [link.attributes["href"].partition("?")[2] for link in charts.one("nav", "ranges").every("a")] == [
        f"range={each}#charts" for each in ("1h", "24h", "7d", "14d")
    ]
    assert charts.facts() == {
        "Fresh": "100 % of 10 s",
        "Longest staleness": "10 s now",
        "Duration": "0 s median; 95 % at most 0 s",
        "Written a day": "2 rows 2 B of sources read",
    }
    captions = [caption.text for caption in charts.every("figcaption")]
    assert captions[0].startswith("Staleness Never late. Stalest now: 10 s.")
    assert captions[1].startswith("Refreshes 2 refreshes: 1 succeeded, 1 skipped.")
    assert "freshtable doctor" in charts.text


def test_the_page_of_a_table_with_many_refreshes_does_not_wait_until_all_are_read(
    often: WholeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "FEW", 2)
    for _ in range(3):
        often.pass_time(seconds=10)
    path = f"/tables/{table_id(often)}"

    first = document_of(pages(often, path).text).one("section", id="charts")
    of_charts = curve(often)
    again = document_of(pages(often, path).text).one("section", id="charts")

    assert first.every("figcaption")[1].text.startswith("Refreshes 2 refreshes:")
    assert sum(bar["times"] for bar in of_charts["bars"]) == 4
    assert again.every("figcaption")[1].text.startswith("Refreshes 4 refreshes:")


# ------------------------------------------------------------------------------------- runs of all kinds


def stored(whole: WholeGateway, **changes: Any) -> RefreshRun:
    """Return a run of the only table that is stored with *changes*."""
    run = a_run(table_id(whole), requested_at=START, **changes)
    with whole.process.registry.transaction() as tx:
        tx.runs.insert(run)
    return run


def test_a_failed_refresh_links_its_retries_and_says_what_was_lost(often: WholeGateway) -> None:
    failed = stored(
        often,
        kind=RunKind.PERIODIC,
        status=RunStatus.FAILED,
        schedule_time=START - HOUR,
        points=tuple(START - number * HOUR for number in range(1, 15)),
        started_at=START,
        finished_at=START,
        attempt=3,
        excused=1,
        shared=1,
        alike=2,
        error_before="<b>the same</b>",
        error="<script>alert(1)</script>\nsecond line",
        cause="java.lang.ArithmeticException",
        broken=True,
        options={"password": "hunter2", "execution.retries": "<i>3</i>"},
    )
    retry = stored(often, retry_of=failed.run_id, status=RunStatus.CANCELED, reason="<u>cancelled</u>")

    main = seen(often, failed.run_id)

    facts = main.facts()
    assert main.one("pre", "error").text == "<script>alert(1)</script> second line"
    assert facts["Retried by"] == retry.run_id
    assert facts["Attempt"] == ("3 (1 lost with Spark's cluster, 1 lost with other work in the same process)")
    assert facts["Failed before"].endswith("with: <b>the same</b>")
    assert facts["Schedule times"].endswith("and 2 more")
    assert (facts["password"], facts["execution.retries"]) == ("***", "<i>3</i>")
    assert facts["Requested"] == "12:00:00 (1 h after the schedule time)"
    assert "Spark can no longer resolve the query" in main.text
    assert seen(often, retry.run_id).one("a", href=f"/ui/runs/{failed.run_id}", rel="prev").text == "← Older"
    assert seen(often, retry.run_id).facts()["Retry of"] == failed.run_id


def test_a_request_that_another_refresh_covers_leads_to_it(often: WholeGateway) -> None:
    [host] = runs(often)
    covered = stored(often, status=RunStatus.COALESCED, covered_by=host)

    assert seen(often, covered.run_id).facts()["Covered by"] == host
    assert seen(often, host).facts()["Covers"] == covered.run_id


def test_a_refresh_that_waits_for_others_says_which_and_until_when(often: WholeGateway) -> None:
    waiting = stored(often, waits_until=START + HOUR, waits_for={"t-1": "lake.shop.<a> 12:00"})

    main = seen(often, waiting.run_id)

    assert main.one("p", "headline").text == "Waiting for the refresh of lake.shop.<a> 12:00."
    assert main.facts()["Waits for"] == "lake.shop.<a> 12:00, until 13:00:00 at most"


def test_a_continuous_refresh_has_its_last_batches_newest_first(often: WholeGateway) -> None:
    batches = tuple(
        Batch(
            number=number,
            began_at=START - HOUR,
            seconds=1.5,
            lag=None if number == 8 else 2.25,
            strategy="append",
            rows=1_000,
            snapshot_id=f"s-{number}",
        )
        for number in (8, 9)
    )
    run = stored(
        often,
        kind=RunKind.CONTINUOUS,
        status=RunStatus.SUCCEEDED,
        started_at=START - HOUR,
        finished_at=START,
        steps={"decide": 0.5, "write": 1.0},
        batches=9,
        recent=batches,
        rows=9_000,
        continuous_job="job-1",
        reason="it lasted an hour",
    )

    main = seen(often, run.run_id)

    assert [row for row in main.rows() if row[0] in "89"] == [
        ["9", "11:00:00", "1.5 s", "2.2 s", "append", "1,000", "-", "s-9"],
        ["8", "11:00:00", "1.5 s", "-", "append", "1,000", "-", "s-8"],
    ]
    assert "The last 2 of 9, newest first." in main.text
    assert main.one("p", "headline").text == "Published 9 batches in 1 h."
    assert main.facts()["Job"] == "job-1"


def test_runs_of_every_kind_and_status_can_be_shown(often: WholeGateway) -> None:
    kinds = [{"kind": kind, "status": RunStatus.SUCCEEDED} for kind in RunKind]
    statuses = [{"kind": RunKind.PERIODIC, "status": status} for status in RunStatus]

    for changes in (*kinds, *statuses):
        # Claimed by a gateway whose lease lasts, so that nobody touches it.
        run = stored(often, claim=1, owner="other", waits_until=START + HOUR, reason="because", **changes)
        main = seen(often, run.run_id)

        assert main.one("h1").text == "Refresh of lake.default.often"
        assert main.facts()["Refresh id"] == run.run_id
