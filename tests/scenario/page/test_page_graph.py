"""The graph on the page: namespaces, a table with its neighbours, the cause of lateness, and names."""

from __future__ import annotations

import httpx
import pytest

from mt_core.model.partition import PartitionSpec
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.html_document import Element, document_of


def get(whole: WholeGateway, path: str, **headers: str) -> httpx.Response:
    return whole.http.get(f"/ui{path}", headers=headers)


def seen(whole: WholeGateway, path: str = "/graph") -> Element:
    answer = get(whole, path)
    assert answer.status_code == 200, answer.text
    assert " style=" not in answer.text
    return document_of(answer.text).one("main")


def labels(main: Element) -> list[str]:
    return [each.attributes["aria-label"] for each in main.every("a", "node")]


def edges(main: Element, class_: str = "edge") -> list[str]:
    return [each.text for each in main.every("path", class_)]


@pytest.fixture
def chain(whole: WholeGateway) -> WholeGateway:
    """A gateway whose tables read each other: orders > one > two > three, the last in another namespace."""
    for name, source in (("one", "orders"), ("two", "one"), ("web.three", "lake.default.two")):
        whole.sql(EVERY_10_S.format(name, source))
        whole.wait_quiet()
    return whole


@pytest.fixture
def late(chain: WholeGateway) -> WholeGateway:
    """The chain, in which `one` has been suspended for so long that all tables above it are late."""
    chain.sql("ALTER MATERIALIZED TABLE one SUSPEND")
    chain.pass_time(seconds=40)
    return chain


# ------------------------------------------------------------------------------------------------- namespaces


def test_without_a_name_the_graph_has_the_namespaces_with_their_counters(chain: WholeGateway) -> None:
    main = seen(chain)

    assert main.one("h1").text == "Graph"
    assert labels(main) == ["lake.default: 2 tables, 2 fresh", "lake.web: 1 table, 1 fresh"]
    assert edges(main) == ["1 table of lake.web read tables of lake.default"]
    assert main.every("a", "node")[0].attributes["href"] == "/ui/?in=lake.default"
    assert [each.text for each in main.one(None, "namespaces").every("li")] == [
        "lake.default ✓ 2 fresh",
        "lake.web ✓ 1 fresh reads lake.default",
    ]


def test_without_a_name_the_late_tables_are_listed_those_that_are_causes_first(late: WholeGateway) -> None:
    main = seen(late)

    links = [each.every("a")[0].attributes["href"] for each in main.one(None, "late-now").every("li")]
    assert links == ["/ui/graph?of=lake.default.two", "/ui/graph?of=lake.web.three"]
    assert main.one("path", "late").text.endswith("1 of them late because of that")


def test_a_gateway_without_tables_says_what_the_graph_would_show(whole: WholeGateway) -> None:
    main = seen(whole)

    assert main.one("p", "empty-title").text == "No materialized tables yet."
    assert not main.every("svg")


# -------------------------------------------------------------------------------------------- around a table


def test_a_table_is_drawn_with_two_levels_of_what_it_reads_and_what_reads_it(chain: WholeGateway) -> None:
    main = seen(chain, "/graph?of=lake.default.two")

    assert main.one("h1").text == "Graph of lake.default.two"
    assert [label.partition(",")[0] for label in labels(main)] == [
        "lake.default.orders", "lake.default.one", "lake.default.two", "lake.web.three",
    ]  # fmt: skip
    assert labels(main)[2] == "lake.default.two, fresh, shows its sources as of 2026-03-01 12:00:00 UTC"
    assert sorted(edges(main)) == [
        "lake.default.one reads lake.default.orders",
        "lake.default.two reads lake.default.one",
        "lake.web.three reads lake.default.two",
    ]
    levels = [each.text.partition(" level")[0] for each in main.every("span", "levels")]
    assert levels == ["Sources: 2 of 2", "Readers: 1 of 1"]


def test_the_same_is_written_as_two_trees(chain: WholeGateway) -> None:
    main = seen(chain, "/graph?of=lake.default.two")

    reads, read_by = main.every(None, "tree")
    assert [each.text for each in reads.every("a")] == ["lake.default.one", "lake.default.orders"]
    assert [each.text for each in read_by.every("a")] == ["lake.web.three"]


def test_fewer_levels_show_less_and_lead_to_the_rest(chain: WholeGateway) -> None:
    main = seen(chain, "/graph?of=lake.default.two&up=0&down=1")

    assert [label.partition(",")[0] for label in labels(main)] == ["lake.default.one", "lake.default.two"]
    assert [each.text.partition(" of ")[0] for each in main.every("a", "further")] == [
        "1 more source",
        "1 more reader",
    ]
    [more] = main.every("a", aria_label="Readers: one level more")
    assert more.attributes["href"] == "/ui/graph?of=lake.default.two&up=1&down=1"


def test_a_source_is_drawn_with_its_readers(chain: WholeGateway) -> None:
    main = seen(chain, "/graph?of=lake.default.orders&up=1")

    assert labels(main)[0] == "lake.default.orders, table"
    assert [label.partition(",")[0] for label in labels(main)[1:]] == ["lake.default.one"]
    assert "Freshtable does not refresh it" in main.one("p", "says").text


def test_a_late_table_leads_to_its_cause_however_far_it_is(late: WholeGateway) -> None:
    main = seen(late, "/graph?of=lake.web.three&down=0")

    assert sorted(edges(main, "late")) == [
        "lake.default.two reads lake.default.one",
        "lake.web.three reads lake.default.two",
    ]
    assert [each.text for each in main.every("g", "cause")] == ["cause: suspended"]
    assert main.one("p", "path").text == (
        "lake.default.one cause: suspended → is read by lake.default.two → is read by lake.web.three"
    )
    assert main.one("p", "says").text.startswith("● Late by ")


def test_tables_that_fail_are_marked_with_an_icon_and_a_word(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.pass_time(seconds=10)

    main = seen(whole, "/graph?of=lake.default.often")

    assert labels(main)[1].startswith("lake.default.often, failing")
    assert main.one("a", "is-center").one("text", "failing").text == "✕"


# ------------------------------------------------------------------------------------------------------ names


def test_a_table_is_found_by_its_id_and_by_its_name_in_any_quoting(chain: WholeGateway) -> None:
    [found] = [
        each for each in chain.http.get("/freshtable/v1/tables").json()["tables"] if each["table"] == "two"
    ]

    headings = [
        seen(chain, f"/graph?of={of}").one("h1").text for of in (found["id"], "`lake`.`default`.`two`")
    ]

    assert headings == ["Graph of lake.default.two"] * 2


def test_the_last_part_of_a_name_is_enough_if_only_one_table_is_called_so(chain: WholeGateway) -> None:
    chain.sql(EVERY_10_S.format("web.one", "lake.default.orders"))

    only, several = get(chain, "/graph?of=Three&up=1"), get(chain, "/graph?of=one")

    assert (only.status_code, only.headers["location"]) == (303, "/ui/graph?of=lake.web.three&up=1")
    assert several.status_code == 404
    assert "Names that contain it: lake.default.one, lake.web.one." in several.text


def test_an_unknown_name_is_a_page_that_says_so(chain: WholeGateway) -> None:
    unknown, quotes = get(chain, "/graph?of=nope"), get(chain, "/graph?of=a'b.<i>")

    assert (unknown.status_code, quotes.status_code) == (404, 404)
    assert "nope is neither a materialized table nor read by one." in unknown.text
    assert document_of(quotes.text).one("p", "error-text").text.startswith("a'b.<i> is neither")


def test_a_name_with_markup_is_text_everywhere(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("`<script>alert(1)`", "orders"))
    whole.wait_quiet()

    main = seen(whole, "/graph?of=lake.default.`<script>alert(1)`")

    assert not main.every("script")
    assert main.one("h1").text == "Graph of lake.default.`<script>alert(1)`"
    assert main.one("a", "is-center").one("text", "node-name").text == "`<script>alert(1)`"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("of=lake.default.one&up=-1", "up must be a whole number from 0 to 100"),
        ("up=1", "up and down are levels around a table: add of=NAME."),
        ("off=one", "off is not a parameter of /ui/graph"),
    ],
)
def test_a_query_that_means_nothing_is_refused(chain: WholeGateway, query: str, words: str) -> None:
    answer = get(chain, f"/graph?{query}")

    assert answer.status_code == 400
    assert words in document_of(answer.text).text


# ------------------------------------------------------------------------------------------------------ polls


def version_of(whole: WholeGateway) -> str:
    return str(seen(whole).one("section", "graph").attributes["data-version"])


def test_a_poll_is_answered_with_the_drawing_alone_and_only_if_something_has_changed(
    chain: WholeGateway,
) -> None:
    headers = {"HX-Request": "true", "HX-Target": "graph"}
    since = {"since": version_of(chain)}

    unchanged = chain.http.get("/ui/graph", params=since, headers=headers)
    chain.sql("ALTER MATERIALIZED TABLE one SUSPEND")
    changed = chain.http.get("/ui/graph", params=since, headers=headers)

    assert (unchanged.status_code, unchanged.text) == (204, "")
    assert changed.status_code == 200
    [section] = [each for each in document_of(changed.text).nodes if isinstance(each, Element)]
    assert (section.tag, section.attributes["id"]) == ("section", "graph")
    assert labels(section)[0] == "lake.default: 2 tables, 1 suspended, 1 fresh"


def test_the_bars_move_even_if_nothing_happens(chain: WholeGateway) -> None:
    first = version_of(chain)

    chain.tick(minutes=1)

    assert version_of(chain) != first
