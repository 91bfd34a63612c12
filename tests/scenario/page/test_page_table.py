"""The view of one table, as a browser without scripts shows it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from mt_core.gateway.services import GatewayServices
from mt_core.model.connector_table import ConnectorTable, GeneratedRows
from mt_core.model.partition import PartitionSpec
from mt_core.model.progress import Progress
from mt_core.model.run import Batch, RunKind, RunStatus
from mt_core.tables.registry import Transaction, in_transaction
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.whole import DAILY, EVERY_10_S, START, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import Element, document_of
from tests.support.registry_facts import a_run

ENDLESS = ConnectorTable(
    name="`lake`.`default`.`orders`",
    columns=("`id` INT",),
    clauses="",
    connector="datagen",
    query="SELECT 1 AS id",
    unbounded=GeneratedRows(items=("value",), rows_per_second=1),
)
FRAGMENT = {"HX-Request": "true"}


@pytest.fixture
def often(whole: WholeGateway) -> WholeGateway:
    """A gateway with the table `often`, which was refreshed once."""
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    return whole


def id_of(whole: WholeGateway, name: str = "often") -> str:
    tables = whole.http.get("/freshtable/v1/tables").json()["tables"]
    [found] = [table["id"] for table in tables if table["table"] == name]
    return str(found)


def runs_of(whole: WholeGateway, name: str = "often") -> list[str]:
    """Return the ids of the runs of a table, newest first."""
    answer = whole.http.get(f"/freshtable/v1/tables/{id_of(whole, name)}/refreshes")
    return [run["id"] for run in answer.json()["refreshes"]]


def running_of(whole: WholeGateway) -> list[str]:
    answer = whole.http.get(f"/freshtable/v1/tables/{id_of(whole)}/refreshes")
    return [run["id"] for run in answer.json()["refreshes"] if run["status"] == "RUNNING"]


def page(whole: WholeGateway, name: str = "often", **query: str) -> Element:
    answer = whole.http.get(f"/ui/tables/{id_of(whole, name)}", params=query)
    assert answer.status_code == 200, answer.text
    return document_of(answer.text)


def part(whole: WholeGateway, element: str, **query: str) -> Any:
    """Return the answer to a request for a part of the page of `often`."""
    headers = {**FRAGMENT, "HX-Target": element}
    return whole.http.get(f"/ui/tables/{id_of(whole)}", params=query, headers=headers)


def sentence(document: Element) -> str:
    return document.one("p", "sentence").text


def card(document: Element, title: str) -> Element:
    [found] = [each for each in document.every("section") if title in [h.text for h in each.every("h2")]]
    return found


def strip(document: Element) -> dict[str, str]:
    return document.one("dl", "strip").facts()


def buttons(document: Element) -> list[str]:
    """Return the links of actions."""
    return [link.text for link in document.one(id="head").every("a", "button")]


def fail(whole: WholeGateway) -> None:
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.pass_time(seconds=10)


def fail_with(gateway: WholeGateway, error: str) -> None:
    """Write a refresh of `often` that failed with *error* into the ledger."""
    failed = a_run(
        id_of(gateway),
        kind=RunKind.PERIODIC,
        status=RunStatus.FAILED,
        requested_at=START,
        started_at=START,
        finished_at=START,
        error=error,
    )
    in_transaction(gateway.process.registry, lambda tx: tx.runs.insert(failed))


def damage(folder: Path, change: str) -> None:
    with closing(sqlite3.connect(folder / "registry.db")) as connection, connection:
        connection.execute(change)


# ------------------------------------------------------------------------------------------------ how it is


def test_a_fresh_table_says_what_it_shows_and_until_when_that_is_in_time(often: WholeGateway) -> None:
    often.pass_time(seconds=15)

    document = page(often)

    assert document.one("title").text == "lake.default.often · Freshtable"
    assert document.one("h1").text == "often ✓ fresh"
    assert sentence(document) == (
        "Fresh: it shows its sources as they were at 12:00:15, and is not late before 12:00:30"
    )
    facts = strip(document)
    assert facts["Shows data of"] == "12:00:15 0 s ago"
    assert facts["Last refresh"] == "↷ skipped 12:00:15"
    assert (facts["Next refresh"], facts["Freshness"]) == ("12:00:20", "10 seconds FULL")


def test_times_are_in_the_zone_of_the_table_and_exact_in_their_titles(whole: WholeGateway) -> None:
    whole.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()

    document = page(whole)

    [shows, *_] = document.one("p", "sentence").every("time")
    assert (shows.text, shows.attributes["title"], shows.attributes["datetime"]) == (
        "21:00:00", "2026-03-01 21:00:00 Asia/Tokyo", "2026-03-01T12:00:00Z",
    )  # fmt: skip
    assert card(document, "Definition").facts()["Freshness"] == "every 10 seconds in Asia/Tokyo"


def test_a_table_of_an_hour_is_refreshed_every_hour(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("hourly", "orders").replace("'10' SECOND", "'1' HOUR"))

    assert card(page(whole, "hourly"), "Definition").facts()["Freshness"] == "every hour in UTC"


def test_a_failing_table_says_what_failed_and_until_when_that_is_in_time(often: WholeGateway) -> None:
    fail(often)

    document = page(often)

    assert document.one("h1").text == "often ✕ failing"
    assert sentence(document) == (
        "Will be late at 12:00:20 unless the next refresh succeeds: the last one failed at 12:00:10: "
        + often.show("error", name="often")[-1].removesuffix(".")
    )
    # The error would be there twice.
    assert document.every("pre", "error") == []


def test_an_error_that_is_too_long_for_the_sentence_stands_below_it(often: WholeGateway) -> None:
    error = "[ARITHMETIC] division by zero\n" + "  at line 1 of the query\n" * 9
    fail_with(often, error)

    head = page(often).one(id="head")

    assert "failed at 12:00:00: division by zero at line 1" in sentence(head)
    assert head.one("pre", "error").text == " ".join(error.split())


def test_only_the_first_sentence_of_an_error_is_repeated_above_it(often: WholeGateway) -> None:
    error = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` instead. SQLSTATE: 22012"
    fail_with(often, error)

    head = page(often).one(id="head")

    assert sentence(head).endswith("failed at 12:00:00: Division by zero")
    assert head.one("pre", "error").text == error


def test_a_late_table_links_to_the_table_that_causes_it(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.wait_quiet()
    often.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    for _ in range(4):
        often.pass_time(seconds=10)

    document = page(often, "above")

    cause = document.one("p", "sentence").one("a")
    assert sentence(document) == "Late by 10 s because lake.default.often is suspended"
    assert cause.attributes["href"] == "/ui/t/lake.default.often"


def test_a_suspended_table_says_so_and_can_be_resumed(often: WholeGateway) -> None:
    often.sql("ALTER MATERIALIZED TABLE often SUSPEND")

    document = page(often)

    assert document.one("h1").text == "often ‖ suspended"
    assert sentence(document).startswith("Suspended since 12:00:00")
    assert buttons(document) == ["Refresh", "Resume", "Verify", "Explain refresh"]
    assert strip(document)["Late from"] == "never"


def test_actions_are_links_that_lead_to_their_forms(often: WholeGateway) -> None:
    document, base = page(often), f"/ui/tables/{id_of(often)}"

    links = {each.text: each.attributes["href"] for each in document.one(id="head").every("a", "button")}

    assert links == {
        "Refresh": f"{base}/refresh",
        "Suspend": f"{base}/suspend",
        "Verify": f"{base}/verify",
        "Explain refresh": f"{base}/explain",
    }


# ------------------------------------------------------------------------------------------ running, waiting


def test_a_running_refresh_shows_for_how_long_its_tasks_and_how_to_cancel_it(
    often: WholeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.tick(seconds=10)
    assert hold.entered.wait(60)
    often.clock.advance(timedelta(seconds=70))
    monkeypatch.setattr(often.engine, "progress", lambda _job: Progress(done=12, total=40, rows_read=1204))

    document, [run_id, *_] = page(often), running_of(often)
    hold.release()
    often.wait_quiet()

    running = document.one("section", aria_label="Running refresh")
    assert running.one("h2").text == "Refresh running for 1 min 10 s"
    assert running.one("progress").attributes | {"aria-label": ""} == {
        "max": "40", "value": "12", "aria-label": "",
    }  # fmt: skip
    assert "12 of 40 tasks, 1,204 rows read" in running.text
    assert "PERIODIC · whole table · attempt 1" in running.text
    assert running.one("a", "danger").attributes["href"] == f"/ui/runs/{run_id}/cancel"
    assert strip(document)["Next refresh"] == "running now"


def test_refreshes_that_wait_are_listed_with_what_they_wait_for(often: WholeGateway) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.tick(seconds=10)
    assert hold.entered.wait(60)
    often.client.execute("ALTER MATERIALIZED TABLE often REFRESH")
    often.wait_until(lambda: "QUEUED" in often.show("status", name="often"))

    document = page(often)
    hold.release()
    often.wait_quiet()

    [waiting] = document.one("section", aria_label="Waiting refreshes").every("li")
    assert waiting.text == "MANUAL whole table, requested at 12:00:10: waits for a worker"


def test_a_continuous_table_shows_its_batches_and_cannot_be_cancelled(whole: WholeGateway) -> None:
    whole.sql("CREATE MATERIALIZED TABLE live FRESHNESS = INTERVAL '10' SECOND AS SELECT * FROM orders")
    whole.wait_quiet()
    batch = Batch(
        number=3, began_at=START, seconds=0.4, lag=1.2, strategy="append", rows=1204, snapshot_id="7"
    )
    run = a_run(
        id_of(whole, "live"),
        kind=RunKind.CONTINUOUS,
        status=RunStatus.RUNNING,
        requested_at=START,
        started_at=START,
        owner="another gateway",
        lease_until=START + timedelta(days=1),
        job_id="j",
        reason="orders changed",
        batches=3,
        recent=(batch,),
    )
    whole.clock.advance(timedelta(minutes=2))
    in_transaction(whole.process.registry, lambda tx: tx.runs.insert(run))

    document = page(whole, "live")

    running = document.one("section", "work")
    assert running.one("h2").text == "Refreshed continuously for 2 min"
    assert "3 batches, lag p50 1.2 s, p99 1.2 s; orders changed" in running.text
    assert "append, 1,204 rows in 0.4 s, 1.2 s behind its sources." in running.text
    assert running.every("a", "danger") == []
    assert card(document, "Workflow").text.startswith("Workflow No workflow: this gateway watches")


def test_a_table_over_a_stream_says_that_a_job_adds_its_rows_and_is_not_refreshed(
    whole: WholeGateway,
) -> None:
    in_transaction(whole.process.registry, lambda tx: tx.connector_tables.put(ENDLESS))
    whole.perform("CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '10' SECOND AS SELECT * FROM orders")
    whole.watch_streams()

    document = page(whole, "kept")

    assert sentence(document) == "Fresh: a streaming job adds rows as they arrive"
    assert buttons(document) == ["Suspend"]
    assert "A streaming job adds the rows of lake.default.orders." in card(document, "Workflow").text
    assert strip(document)["Late from"] == "never"


def test_the_outcome_of_an_action_is_said_once(often: WholeGateway) -> None:
    [note, *_] = page(often, done="suspended").one("main").every("p", "note")

    assert (note.text, note.attributes["role"]) == ("✓ Table suspended.", "status")


# --------------------------------------------------------------------------------------------------- ledger


def rows(document: Element) -> list[list[str]]:
    return document.one(id="ledger").rows()


def test_the_ledger_lists_the_newest_refreshes_with_what_came_of_them(often: WholeGateway) -> None:
    often.pass_time(seconds=10)
    fail(often)

    failed, skipped, first = rows(page(often))

    assert failed[:2] == ["✕ failed", "12:00:20"]
    assert failed[4].startswith("division by zero in ds=2026-03-01")
    assert (skipped[0], skipped[5]) == ("↷ skipped", "periodic")
    assert (first[0], first[4], first[5]) == ("✓ succeeded", "recompute: 2 inserted", "initial")


def test_the_ledger_has_pages_of_twenty(often: WholeGateway) -> None:
    for _ in range(24):
        often.pass_time(seconds=10)
    first = page(often)
    address = first.one(id="ledger").one("a", rel="next").attributes["href"]

    answer = often.http.get(address)

    second = document_of(answer.text)
    assert (len(rows(first)), len(rows(second))) == (20, 5)
    assert rows(second)[-1][5] == "initial"
    assert "data-every" in first.one(id="ledger").attributes
    assert "data-every" not in second.one(id="ledger").attributes
    assert second.one(id="ledger").every("a", rel="next") == []


def test_a_page_after_a_refresh_that_is_no_longer_kept_leads_to_the_newest(often: WholeGateway) -> None:
    ledger = page(often, after="gone").one(id="ledger")

    assert "No older refreshes." in ledger.text
    assert ledger.one("a").attributes["href"] == f"/ui/tables/{id_of(often)}"


def test_a_refresh_opens_from_its_row_and_from_a_link(often: WholeGateway) -> None:
    fail(often)
    newest, first = runs_of(often)
    [link, *_] = page(often).one(id="ledger").one("tbody").every("a")

    answer = often.http.get(link.attributes["href"])

    document = document_of(answer.text)
    assert link.attributes["href"] == f"/ui/tables/{id_of(often)}?run={newest}#refresh"
    refresh = document.one(id="refresh")
    assert newest in refresh.text
    assert first not in refresh.one("h2", id="refresh-title").text
    [row] = document.one(id="ledger").every("tr", "is-open")
    assert row.one("a").attributes["aria-expanded"] == "true"
    # The same link closes it.
    assert row.one("a").attributes["href"] == f"/ui/tables/{id_of(often)}#ledger"


def test_a_refresh_of_another_table_does_not_open(often: WholeGateway) -> None:
    often.sql(DAILY)
    often.wait_quiet()

    for run in (runs_of(often, "daily")[0], "nonsense"):
        document = page(often, run=run)

        assert document.every(id="refresh") == []
        assert "is not in the ledger of this table" in document.one(id="ledger").text


def test_a_refresh_that_cannot_be_read_is_a_row_with_the_reason(often: WholeGateway, tmp_path: Path) -> None:
    often.pass_time(seconds=10)
    damage(tmp_path, f"UPDATE runs SET body = 'no json' WHERE run_id = '{runs_of(often)[0]}'")

    broken, first = rows(page(often))

    assert broken[0] == "unreadable"
    assert broken[1].startswith("cannot be read: ")
    assert first[0] == "✓ succeeded"


def test_a_running_refresh_can_be_cancelled_though_its_table_cannot_be_read(
    often: WholeGateway, tmp_path: Path
) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.tick(seconds=10)
    assert hold.entered.wait(60)
    [run_id, *_] = running_of(often)
    damage(tmp_path, "UPDATE materialized_tables SET body = 'no json'")

    form = often.http.get(f"/ui/runs/{run_id}/cancel")
    hold.release()

    assert form.status_code == 200
    assert "a table that cannot be read" in document_of(form.text).one(id="dialog").text


# ----------------------------------------------------------------------------------------------- definition


def test_the_definition_has_columns_options_query_and_workflow_with_secrets_masked(
    whole: WholeGateway,
) -> None:
    whole.sql(
        "CREATE MATERIALIZED TABLE base COMMENT 'Orders by day' PARTITIONED BY (ds) "
        "WITH ('write.data.path' = 's3://u:hunter2@h/x', 'write.format.default' = 'orc') "
        "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"
    )
    whole.wait_quiet()

    answer = whole.http.get(f"/ui/tables/{id_of(whole, 'base')}")

    document = document_of(answer.text)
    assert "hunter2" not in answer.text
    facts = card(document, "Definition").facts()
    assert (facts["Comment"], facts["Partitioned by"], facts["Refresh mode"]) == (
        "Orders by day", "ds", "FULL",
    )  # fmt: skip
    assert card(document, "Columns").rows() == [["ds partition key", "STRING"], ["amount", "INT"]]
    assert card(document, "Options").facts() == {
        "write.data.path": "s3://u:***@h/x",
        "write.format.default": "orc",
    }
    assert document.one("pre", "sql").text == "SELECT * FROM orders"
    assert document.one("button", data_copy="#query").classes >= {"needs-script"}
    assert "memory" in card(document, "Workflow").text


def test_what_it_reads_and_what_reads_it_are_trees_with_states(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.sql(EVERY_10_S.format("top", "above"))
    often.wait_quiet()
    often.sql("ALTER MATERIALIZED TABLE above SUSPEND")

    document = page(often)

    assert card(document, "Reads").one("li").text == "lake.default.orders table"
    [above, top] = card(document, "Read by").every("li")
    assert above.text.startswith("‖ suspended lake.default.above")
    assert top.one("a").attributes["href"] == "/ui/t/lake.default.top"
    assert top in above.every("li")


def test_a_name_and_a_query_with_markup_are_text_everywhere(whole: WholeGateway) -> None:
    name = 'it\'s "ü" <script>alert(1)<script>``'
    whole.engine.create_source("lake.default.s", [{"ds": "2026-02-28", "amount": 1}])
    whole.sql(
        f"CREATE MATERIALIZED TABLE `{name}` COMMENT '<b>bold</b>' FRESHNESS = INTERVAL '10' SECOND "
        "REFRESH_MODE = FULL AS SELECT * FROM s"
    )
    whole.wait_quiet()

    document = page(whole, name.replace("``", "`"))

    assert document.one("h1").text.startswith(f"`{name}`")
    assert document.one("title").text == f"lake.default.`{name}` · Freshtable"
    assert card(document, "Definition").facts()["Comment"] == "<b>bold</b>"
    assert document.every("b") == []
    assert all("src" in script.attributes and not script.text for script in document.every("script"))


def test_no_element_has_a_style_or_a_handler_of_its_own(often: WholeGateway) -> None:
    fail(often)

    for document in (page(often), page(often, run=runs_of(often)[0])):
        for element in document.every():
            assert not any(name == "style" or name.startswith("on") for name in element.attributes)


# ------------------------------------------------------------------------------------- what does not exist


def test_the_page_of_a_dropped_table_says_so_and_where_its_last_refresh_is(often: WholeGateway) -> None:
    table_id, [run, *_] = id_of(often), runs_of(often)
    often.sql("DROP MATERIALIZED TABLE often")

    answer = often.http.get(f"/ui/tables/{table_id}")

    document = document_of(answer.text)
    assert (answer.status_code, document.one("h1").text) == (404, "This table was dropped")
    assert document.one("main").every("a")[0].attributes["href"] == f"/ui/runs/{run}"


def test_a_table_that_never_existed_is_not_found(often: WholeGateway) -> None:
    answer = often.http.get("/ui/tables/nonsense")

    assert answer.status_code == 404
    assert document_of(answer.text).one("h1").text == "There is no such table"


class DropsWhileReading:
    """The reads of the registry by pages; the table `often` is dropped before the read with this number."""

    def __init__(self) -> None:
        self.whole: WholeGateway | None = None
        self.before = 0
        self._reads = 0

    def app(self, services: GatewayServices) -> ASGIApp:
        @contextmanager
        def reading() -> Iterator[Transaction]:
            self._reads += 1
            if self._reads == self.before and self.whole is not None:
                self.whole.sql("DROP MATERIALIZED TABLE often")
            with services.facts.reading() as tx:
                yield tx

        return app_of(replace(services, facts=replace(services.facts, reading=reading)))

    def drop_before(self, read: int, whole: WholeGateway) -> None:
        self.before, self.whole, self._reads = read, whole, 0


@pytest.mark.parametrize("read", [1, 2, 3, 4, 5])
def test_a_table_that_is_dropped_while_its_page_is_read_is_not_found(tmp_path: Path, read: int) -> None:
    drops = DropsWhileReading()
    with closing(WholeGateway(tmp_path, app=drops.app)) as whole:
        whole.sql(EVERY_10_S.format("often", "orders"))
        whole.wait_quiet()
        table_id = id_of(whole)
        drops.drop_before(read, whole)

        answer = whole.http.get(f"/ui/tables/{table_id}")
        after = whole.http.get(f"/ui/tables/{table_id}")

    document = document_of(answer.text)
    assert (answer.status_code, document.one("h1").text) in (
        (404, "This table was dropped"),
        # It was dropped when the ledger had been read.
        *([(200, "often ✓ fresh")] if read == 5 else []),
    )
    assert after.status_code == 404


def test_a_table_that_cannot_be_read_says_why_and_still_has_its_ledger(
    often: WholeGateway, tmp_path: Path
) -> None:
    table_id = id_of(often)
    damage(tmp_path, "UPDATE materialized_tables SET body = '{\"version\": 7}', changed = changed + 1000")

    answer = often.http.get(f"/ui/tables/{table_id}")

    document = document_of(answer.text)
    assert (answer.status_code, document.one("h1").text) == (200, "often ✕ failing")
    assert sentence(document).startswith("Cannot be read: ")
    assert "has version 7" in sentence(document)
    assert buttons(document) == []
    assert len(rows(document)) == 1
    assert "cannot be read" in card(document, "Definition").text


def test_a_parameter_that_the_page_does_not_have_is_refused(often: WholeGateway) -> None:
    answer = often.http.get(f"/ui/tables/{id_of(often)}?rum=1")

    assert answer.status_code == 400
    assert "rum is not a parameter" in document_of(answer.text).one("main").text


# ------------------------------------------------------------------------------------------------ kept up


def since(document: Element, element: str) -> str:
    version = document.one(id=element).attributes["data-version"]
    return str(version)


@pytest.mark.parametrize("element", ["head", "ledger"])
def test_a_part_is_sent_again_only_if_something_has_changed(often: WholeGateway, element: str) -> None:
    version = since(page(often), element)

    unchanged = part(often, element, since=version)
    often.clock.advance(timedelta(seconds=1))
    a_second_later = part(often, element, since=version)
    often.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    changed = part(often, element, since=version)

    assert (unchanged.status_code, unchanged.content) == (204, b"")
    assert a_second_later.status_code == 204
    assert changed.status_code == 200
    document = document_of(changed.text)
    assert document.one(id=element) is document.every()[0]
    assert document.every("html") == []


def test_a_new_refresh_appears_in_the_part_of_the_ledger(often: WholeGateway) -> None:
    version = since(page(often), "ledger")
    often.pass_time(seconds=10)

    changed = document_of(part(often, "ledger", since=version).text)

    assert [row[0] for row in changed.rows()] == ["↷ skipped", "✓ succeeded"]


def test_the_open_refresh_keeps_itself_up_until_it_has_ended(often: WholeGateway) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.tick(seconds=10)
    assert hold.entered.wait(60)
    run = runs_of(often)[0]
    running = page(often, run=run)
    version = since(running, "refresh")

    unchanged = part(often, "refresh", since=version, run=run)
    hold.release()
    often.wait_quiet()
    ended = part(often, "refresh", since=version, run=run)

    assert unchanged.status_code == 204
    assert "succeeded" in document_of(ended.text).one(id="refresh-title").text
    assert "data-every" not in document_of(ended.text).one(id="refresh").attributes


def test_a_part_of_a_dropped_table_is_not_found(often: WholeGateway) -> None:
    table_id = id_of(often)
    often.sql("DROP MATERIALIZED TABLE often")

    answer = often.http.get(f"/ui/tables/{table_id}", headers={**FRAGMENT, "HX-Target": "head"})

    assert answer.status_code == 404
