"""The first page: what is late and why, before anything is opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mt_core.gateway.page.tables import FIRST_STATEMENTS
from mt_core.model.partition import PartitionSpec
from mt_core.sql.parser import parse
from mt_core.sql.statements import CreateMaterializedTable
from mt_core.tables.registry import in_transaction
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import Element, document_of
from tests.support.registry_facts import a_table
from tests.support.slow_registry import SlowRegistry

STATE, NAME, SHOWS, FRESHNESS, BAR, LAST, NEXT, WHY = range(8)


def seen(whole: WholeGateway, address: str = "/ui/", **parameters: str) -> Element:
    answer = whole.http.get(address, params=parameters or None)
    assert answer.status_code == 200, answer.text
    return document_of(answer.text).one("main")


def names(main: Element) -> list[str]:
    return [row[NAME].rpartition(".")[2] for row in main.rows()]


def counters(main: Element) -> dict[str, str]:
    """Return the addresses of the counters by their texts."""
    return {each.text: each.attributes["href"] for each in main.one("ul", id="counters").every("a")}


def part(whole: WholeGateway, name: str, since: str = "", **parameters: str) -> Any:
    """Return the answer to a request of a browser for a part of the page, of which it has a version."""
    query = {**parameters, "since": since} if since else parameters
    return whole.http.get("/ui/", params=query, headers={"HX-Request": "true", "HX-Target": name})


def since(main: Element, name: str) -> str:
    """Return the version that the browser sends when it asks for a part again."""
    return str(main.one(id=name).attributes["data-version"])


@pytest.fixture
def often(whole: WholeGateway) -> WholeGateway:
    """A gateway with the table `often`, which was refreshed once."""
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    return whole


def fail(whole: WholeGateway) -> None:
    """Make the refreshes of tables that read `orders` fail from the next schedule time on."""
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.pass_time(seconds=10)


# --------------------------------------------------------------------------------------------- without tables


def test_without_tables_the_page_has_the_statements_that_make_one(whole: WholeGateway) -> None:
    main = seen(whole)

    assert main.one("p", "empty-title").text == "No materialized tables yet."
    shown = [each.text for each in main.every("pre")]
    assert shown == [" ".join(statement.split()) for statement in FIRST_STATEMENTS]
    assert [each.attributes["data-copy"] for each in main.every("button", "needs-script")] == [
        f"#{each.attributes['id']}" for each in main.every("pre")
    ]
    assert main.one("a", "primary").attributes["href"] == "/ui/sql"
    assert (counters(main), main.every("table")) == ({}, [])


def test_the_last_of_the_statements_makes_a_materialized_table() -> None:
    assert isinstance(parse(FIRST_STATEMENTS[-1]), CreateMaterializedTable)


def test_while_the_tables_are_read_the_page_says_how_far_it_is(gateway: Gateway, switch: Any) -> None:
    registry = SlowRegistry(gateway.clock)
    with registry.being_read(gateway.services) as services:
        switch.app = app_of(services)
        main = document_of(gateway.http.get("/ui/").text).one("main")

    assert "is reading its tables" in main.one("div", "reading").text
    progress = main.one("progress").attributes
    assert (progress["value"], progress["max"]) == ("0", "100")
    assert (counters(main), main.every("p", "empty-title")) == ({}, [])


# ------------------------------------------------------------------------------------------------------- rows


def test_a_row_says_what_a_table_shows_when_it_was_refreshed_and_when_it_will_be(often: WholeGateway) -> None:
    main = seen(often)

    [row] = main.rows()
    assert row[: BAR + 1] == ["✓ fresh", "lake.default.often", "12:00:00 0 s", "10 seconds", ""]
    assert row[LAST:] == ["✓ recompute 2 rows 0 s", "12:00:10", ""]
    table_id = often.http.get("/freshtable/v1/tables").json()["tables"][0]["id"]
    assert main.one("a", "row").attributes["href"] == f"/ui/tables/{table_id}"
    assert main.one("a", "run").attributes["href"].startswith("/ui/runs/")
    assert main.one("svg", "bar").attributes["aria-label"] == "0 % of the time until it is late"


def test_the_worst_table_is_first_and_says_why(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.wait_quiet()
    fail(often)

    worst, fine = seen(often).rows()

    assert (worst[STATE], worst[NAME]) == ("✕ failing", "lake.default.often")
    assert worst[WHY].startswith("its last refresh failed: ")
    assert worst[LAST].startswith("✕ failed 12:00:10")
    assert (fine[STATE], fine[NAME], fine[WHY]) == ("✓ fresh", "lake.default.above", "")


def test_a_late_table_says_by_how_much_and_its_reader_names_it_as_the_cause(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.wait_quiet()
    fail(often)
    often.pass_time(seconds=30)

    main = seen(often)

    rows = {row[NAME]: row for row in main.rows()}
    assert {row[STATE] for row in rows.values()} == {"● late"}
    assert rows["lake.default.often"][BAR] == "+20 s"
    assert rows["lake.default.often"][WHY].startswith("its query fails: ")
    assert rows["lake.default.above"][WHY] == "lake.default.often is late"
    [cause] = [link for link in main.every("a") if link.text == "lake.default.often" and not link.classes]
    assert cause.attributes["href"] == "/ui/t/lake.default.often"


def test_a_suspended_table_has_no_next_refresh_and_says_who_suspended_it(often: WholeGateway) -> None:
    often.sql("ALTER MATERIALIZED TABLE often SUSPEND")

    main = seen(often)

    [row] = main.rows()
    assert (row[STATE], row[NEXT], row[BAR]) == ("‖ suspended", "", "")
    assert row[WHY].startswith("suspended by ")
    assert list(counters(main)) == ["0 late", "0 failing", "0 soon", "1 suspended", "0 fresh"]


def test_a_refresh_that_runs_or_waits_stands_where_the_next_one_would(often: WholeGateway) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.tick(seconds=10)
    assert hold.entered.wait(60)

    [row] = seen(often).rows()
    hold.release()

    assert row[NEXT] == "▸ running"


def test_a_table_that_cannot_be_read_has_a_row_that_says_so(often: WholeGateway, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "registry.db")) as connection, connection:
        connection.execute(
            "UPDATE materialized_tables SET body = '{\"version\": 7}', changed = changed + 1000"
        )

    [row] = seen(often).rows()

    assert (row[STATE], row[NAME]) == ("✕ failing", "lake.default.often")
    assert row[WHY].startswith("cannot be read: ")
    assert "has version 7" in row[WHY]


def test_names_are_text_whatever_they_contain(whole: WholeGateway) -> None:
    name = "<script>alert(1)\"'"
    whole.engine.create_source("lake.default.s", [{"ds": "2026-02-28", "amount": 1}])
    whole.sql(EVERY_10_S.format(f"`{name}`", "s"))
    whole.wait_quiet()

    main = seen(whole, q="<SCRIPT>")

    assert main.rows()[0][NAME] == f"lake.default.`{name}`"
    assert main.every("script") == []
    assert main.one("input", type="search").attributes["value"] == "<SCRIPT>"


# ----------------------------------------------------------------------------------- counters, filters, order


def test_a_counter_leads_to_its_tables_and_back_to_all(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.wait_quiet()
    fail(often)

    every = counters(seen(often))
    main = seen(often, every["1 failing"])

    assert every["1 failing"] == "/ui/?state=failing,doubted"
    assert list(every) == ["0 late", "1 failing", "0 soon", "0 suspended", "1 fresh"]
    assert names(main) == ["often"]
    [chosen] = [each for each in main.every("a", "counter") if "aria-current" in each.attributes]
    assert (chosen.attributes["href"], chosen.attributes["title"]) == ("/ui/", "Show all tables")
    assert main.one("input", type="hidden").attributes["value"] == "failing,doubted"


def test_tables_without_rows_are_counted_with_the_fresh_ones_and_named(often: WholeGateway) -> None:
    in_transaction(often.process.registry, lambda tx: tx.tables.insert(a_table("new")))

    main = seen(often)

    assert list(counters(main))[-1] == "2 fresh · 1 without rows yet"
    assert sorted(names(seen(often, state="ok,initializing"))) == ["new", "often"]


def test_a_search_finds_names_and_sources_and_the_filters_keep_to_each_other(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.wait_quiet()

    assert sorted(names(seen(often, q="OFTEN"))) == ["above", "often"]
    assert names(seen(often, q="orders")) == ["often"]
    assert names(seen(often, q="abo", mode="full", **{"in": "lake.default"})) == ["above"]
    found = seen(often, q="above", mode="full")
    assert counters(found)["1 fresh"] == "/ui/?state=ok,initializing&mode=full&q=above"
    assert [each.text for each in found.every("option", selected="")] == ["full"]


def test_a_search_that_finds_nothing_says_for_what_and_leads_to_all(often: WholeGateway) -> None:
    main = seen(often, q="x&y", state="late,soon", **{"in": "lake"})

    assert main.one("p", "empty-title").text == "No table matches."
    assert "No table is late or soon late and is in lake and has “x&y” in its name" in main.text
    [everything] = [each for each in main.every("a") if each.text == "Show all 1"]
    assert everything.attributes["href"] == "/ui/"


def test_a_column_leads_to_its_order_and_says_which_one_it_has(often: WholeGateway) -> None:
    often.sql(EVERY_10_S.format("above", "often"))
    often.wait_quiet()

    def orders(main: Element) -> dict[str, tuple[str, str]]:
        """Return the order that each column has, and where it leads."""
        heads = [each for each in main.one("thead").every("th") if each.every("a")]
        return {
            each.one("a").text.split()[0]: (
                each.attributes.get("aria-sort", ""),
                each.one("a").attributes["href"],
            )
            for each in heads
        }

    worst_first, by_name, reverse = (seen(often, sort=sort) for sort in ("", "name", "-name"))

    assert orders(worst_first) == {
        "state": ("descending", "/ui/?sort=late"),
        "table": ("", "/ui/?sort=name"),
    }
    assert orders(by_name) == {"state": ("", "/ui/"), "table": ("ascending", "/ui/?sort=-name")}
    assert orders(reverse)["table"] == ("descending", "/ui/?sort=name")
    assert (names(by_name), names(reverse)) == (["above", "often"], ["often", "above"])


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("stat=late", "stat is not a parameter"),
        ("state=fine", "state must be"),
        ("limit=301", "limit must be a whole number from 1 to 300"),
        ("after=x", "after must be"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused_on_a_page(
    whole: WholeGateway, query: str, problem: str
) -> None:
    answer = whole.http.get(f"/ui/?{query}")

    assert answer.status_code == 400
    assert problem in document_of(answer.text).one("main").text


# ----------------------------------------------------------------------------------------------- page by page


def test_the_next_hundred_is_a_link_and_with_scripts_a_window_that_grows_and_then_moves(
    whole: WholeGateway,
) -> None:
    in_transaction(
        whole.process.registry,
        lambda tx: [
            tx.tables.insert(a_table(f"t{number:03}", table_id=f"id-{number}")) for number in range(450)
        ],
    )

    def windows(main: Element) -> tuple[str, str, int]:
        found = names(main)
        return found[0], found[-1], len(found)

    first = seen(whole)
    [link] = first.every("a", rel="next")
    second = seen(whole, link.attributes["href"])
    shown, places = [windows(first)], first
    while links := places.every("a", rel="next"):
        places = seen(whole, links[0].attributes["hx-get"])
        shown.append(windows(places))
    back = seen(whole, places.one("a", rel="prev").attributes["hx-get"])

    assert windows(second) == ("t100", "t199", 100)
    assert windows(seen(whole, second.one("a", rel="prev").attributes["href"])) == ("t000", "t099", 100)
    assert shown == [
        ("t000", "t099", 100),
        ("t000", "t199", 200),
        ("t000", "t299", 300),
        ("t100", "t399", 300),
        ("t200", "t449", 250),
    ]
    assert windows(back) == ("t100", "t399", 300)
    assert "101 to 400 of 450" in back.text


# ------------------------------------------------------------------------------------------------- kept up


@pytest.mark.parametrize("name", ["rows", "counters"])
def test_a_part_is_sent_again_only_if_something_has_changed(often: WholeGateway, name: str) -> None:
    version = since(seen(often), name)

    same = part(often, name, version)
    often.clock.advance(timedelta(seconds=1))
    a_second_later = part(often, name, version)
    often.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    changed = part(often, name, version)

    assert (same.status_code, same.content, a_second_later.status_code) == (204, b"", 204)
    assert changed.status_code == 200
    assert "suspended" in document_of(changed.text).one(id=name).text


def test_the_bars_move_each_minute_though_nothing_has_changed(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.replace("'10' SECOND", "'1' DAY").format("daily", "orders"))
    whole.wait_quiet()
    version = since(seen(whole), "rows")

    whole.clock.advance(timedelta(minutes=1))

    assert part(whole, "rows", version).status_code == 200


def test_a_search_is_answered_with_the_counters_and_the_rows_that_ask_for_it_again(
    often: WholeGateway,
) -> None:
    found = document_of(part(often, "listing", q="often").text)

    assert [each.attributes["hx-get"] for each in (found.one(id="counters"), found.one(id="rows"))] == [
        "/ui/?q=often",
        "/ui/?q=often",
    ]
    assert found.every("input") == []


def test_while_spark_is_not_ready_the_page_says_so_and_shows_what_it_has(
    gateway: Gateway, switch: Any
) -> None:
    switch.app = app_of(replace(gateway.services, engine_trouble=lambda: "Spark is starting since 12:00."))

    main = document_of(gateway.http.get("/ui/").text).one("main")

    assert "Spark is starting since 12:00." in main.one("p", "spark-trouble").text
    assert main.one("p", "empty-title").text == "No materialized tables yet."


# -------------------------------------------------------------------------------------------------- by name


@pytest.mark.parametrize(
    "name", ["lake.default.often", "lake/default/often", "`lake`.`default`.`often`", "lake.default.`often`"]
)
def test_the_name_of_a_table_leads_to_its_page(often: WholeGateway, name: str) -> None:
    table_id = often.http.get("/freshtable/v1/tables").json()["tables"][0]["id"]

    answer = often.http.get(f"/ui/t/{name}")

    assert (answer.status_code, answer.headers["location"]) == (303, f"/ui/tables/{table_id}")


def test_the_name_of_no_table_is_a_page_that_says_so(often: WholeGateway) -> None:
    answer = often.http.get("/ui/t/lake.default.never")

    assert answer.status_code == 404
    assert "There is no materialized table lake.default.never" in document_of(answer.text).one("main").text
