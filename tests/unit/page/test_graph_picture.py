"""The drawing of the graph: what is written on its boxes, where lateness comes from, and where it leads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.errors import MtError
from mt_core.gateway.page.graph.causes import Lateness
from mt_core.gateway.page.graph.links import Levels, Links
from mt_core.gateway.page.graph.picture import (
    NodeBox,
    Picture,
    counters,
    key_of,
    picture_around,
    picture_of_namespaces,
    shortened,
)
from mt_core.gateway.page.late_bar import BAR
from mt_core.tables.overview.facts import Read
from mt_core.tables.overview.graph import Graph
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable
from tests.support.registry_facts import HOUR, NOON
from tests.support.table_facts import table_facts, table_named

LINKS = Links("/ui")
CAUSE = table_named("hourly")
LATE: dict[str, Any] = {"state": State.LATE, "below": CAUSE, "fault": Fault.SOURCE, "inherited": True}
# `monthly` is late because `hourly` is, which fails; `board` is drawn beside it.
TABLES = Graph.of(
    [
        table_facts("hourly", "orders", "rates", state=State.LATE, fault=Fault.QUERY),
        table_facts("daily", "hourly"),
        table_facts("monthly", "daily", "rates", **LATE),
        table_facts("board", "monthly", state=State.SUSPENDED, late_at=None),
    ]
)


def name(short: str) -> str:
    return f"lake.shop.{short}"


def drawn(center: str, *, whole: Graph = TABLES, up: int = 9, down: int = 9) -> Picture:
    part, _ = whole.around(name(center), up=up, down=down, most=150)
    return picture_around(name(center), part, whole, Lateness.within(part), LINKS, NOON + HOUR)


def box(picture: Picture, short: str) -> NodeBox:
    [found] = [each for each in picture.boxes if each.full_name == name(short)]
    assert isinstance(found, NodeBox)
    return found


def test_the_box_of_a_table_says_what_it_shows_and_how_long_until_it_is_late() -> None:
    daily = box(drawn("daily"), "daily")

    assert (daily.name, daily.detail, daily.address) == ("daily", "lake.shop", "/ui/tables/id-daily")
    assert (daily.shows, daily.exact, daily.filled) == ("12:00", "2026-03-01 12:00:00 UTC", 45.0)
    assert daily.is_center


def test_the_bar_of_a_table_that_is_long_late_is_full_and_one_without_a_promise_has_none() -> None:
    tables = Graph.of(
        [
            table_facts("late", late_at=NOON + timedelta(minutes=5), state=State.LATE),
            table_facts("suspended", "late", late_at=None, state=State.SUSPENDED),
            table_facts("empty", "late", shows=None, late_at=None, state=State.INITIALIZING),
        ]
    )

    picture = drawn("late", whole=tables)

    assert [box(picture, each).filled for each in ("late", "suspended", "empty")] == [BAR, None, None]
    assert (box(picture, "empty").shows, box(picture, "empty").exact) == ("", "")


def test_the_box_of_a_source_has_its_kind_and_leads_to_the_graph_around_it() -> None:
    tables = Graph.of(
        [
            table_facts(
                "daily", reads=(Read(name="lake.shop.`a b`", kind="view"), Read(name="net", kind="function"))
            )
        ]
    )

    picture = drawn("daily", whole=tables)

    [view, function] = [each for each in picture.boxes if isinstance(each, NodeBox) and not each.is_center]
    assert (view.name, view.detail) == ("`a b`", "view · lake.shop")
    assert view.address == "/ui/graph?of=lake.shop.%60a+b%60"
    assert (function.name, function.detail) == ("net", "function")


def test_the_box_of_a_table_that_cannot_be_read_leads_to_its_page_by_name() -> None:
    tables = Graph.of([UnreadableTable(identifier=table_named("a/b"), error=MtError("It has version 9."))])

    [only] = drawn("`a/b`", whole=tables).boxes

    assert only.address == "/ui/t/lake.shop.%60a%2Fb%60"


def test_boxes_know_their_neighbours_and_count_those_that_are_not_drawn() -> None:
    picture = drawn("daily", up=1, down=1)

    hourly, monthly = box(picture, "hourly"), box(picture, "monthly")
    assert (hourly.left, hourly.right) == ((), (key_of(name("daily")),))
    assert (hourly.hidden_sources, hourly.hidden_readers) == (2, 0)
    assert (monthly.hidden_sources, monthly.hidden_readers) == (1, 1)
    assert monthly.around == "/ui/graph?of=lake.shop.monthly"


def test_the_path_from_a_late_table_to_its_cause_is_drawn_on_top_and_the_cause_is_named() -> None:
    picture = drawn("monthly")

    assert {arrow.title for arrow in picture.arrows if arrow.late} == {
        "lake.shop.daily reads lake.shop.hourly",
        "lake.shop.monthly reads lake.shop.daily",
    }
    assert [arrow.late for arrow in picture.arrows] == [False] * 4 + [True] * 2
    causes = {
        each.full_name: each.cause for each in picture.boxes if isinstance(each, NodeBox) and each.cause
    }
    assert causes == {name("hourly"): "query fails or is slow"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": State.SUSPENDED}, "suspended"),
        ({"state": State.LATE, "fault": Fault.WRITER}, "no new rows"),
        ({"state": State.LATE, "fault": None}, "late"),
    ],
)
def test_a_cause_is_named_in_a_few_words(changes: dict[str, Any], words: str) -> None:
    tables = Graph.of([table_facts("hourly", **changes), table_facts("monthly", "hourly", **LATE)])

    lateness = Lateness.within(tables)

    assert lateness.causes == {name("hourly"): words}
    assert lateness.edges == {(name("hourly"), name("monthly"))}


def test_a_late_table_whose_cause_is_outside_the_drawing_has_no_path() -> None:
    part, _ = TABLES.around(name("monthly"), down=1, most=150)

    assert Lateness.within(part) == Lateness(causes={}, edges=frozenset())


def test_namespaces_have_five_counters_and_thick_edges_where_lateness_passes() -> None:
    tables = Graph.of(
        [
            table_facts("hourly", state=State.LATE),
            table_facts("daily", "hourly", state=State.DOUBTED),
            table_facts("board", namespace="web", reads=(Read(name=name("hourly"), kind="table"),), **LATE),
            table_facts("alone", namespace="x y", state=State.INITIALIZING),
        ]
    )

    picture = picture_of_namespaces(tables.groups(), tables.group_edges(), LINKS)

    boxes = {each.full_name: each for each in picture.boxes}
    shop = boxes["lake.shop"]
    assert not isinstance(shop, NodeBox)
    assert (shop.tables, list(shop.counts.values())) == (2, [1, 1, 0, 0, 0])
    assert boxes["lake.`x y`"].address == "/ui/?in=lake.%60x+y%60"
    [arrow] = picture.arrows
    assert (arrow.late, arrow.title) == (
        True,
        "1 table of lake.web read tables of lake.shop, 1 of them late because of that",
    )


def test_every_state_is_counted_by_exactly_one_counter() -> None:
    assert sum(counters(dict.fromkeys(State, 1)).values()) == len(State)
    assert list(counters({})) == [State.LATE, State.FAILING, State.SOON, State.SUSPENDED, State.OK]


# ----------------------------------------------------------------------------------------------- names, links


@pytest.mark.parametrize(
    ("text", "most", "short"),
    [
        ("revenue", 7, "revenue"),
        ("monthly_revenue_by_region", 11, "month…egion"),
        ("monthly_revenue_by_region", 10, "month…gion"),
        ("売上高の月次集計表", 9, "売上…計表"),
    ],
)
def test_a_long_name_has_an_ellipsis_in_its_middle(text: str, most: int, short: str) -> None:
    assert shortened(text, most) == short


@given(st.text(max_size=60), st.integers(3, 30))
def test_a_shortened_name_begins_and_ends_as_the_name_and_is_not_longer_than_allowed(
    text: str, most: int
) -> None:
    short = shortened(text, most)

    head, _, tail = short.partition("…")
    assert short == text or (text.startswith(head) and text.endswith(tail) and len(short) <= most)


def test_links_to_levels_say_only_what_is_not_usual() -> None:
    distances = {"a": 1, "b": 2, "c": 3}

    levels = Levels.of(2, distances, lambda number: LINKS.around("lake.a", 2, number))

    assert (levels.shown, levels.exist) == (2, 3)
    assert (levels.more, levels.fewer) == ("/ui/graph?of=lake.a&down=3", "/ui/graph?of=lake.a&down=1")


def test_there_are_no_links_to_levels_that_do_not_exist() -> None:
    everything = Levels.of(5, {"a": 1}, str)
    nothing = Levels.of(2, {}, str)

    assert (everything.shown, everything.more, everything.fewer) == (1, None, "0")
    assert (nothing.shown, nothing.exist, nothing.more, nothing.fewer) == (0, 0, None, None)
