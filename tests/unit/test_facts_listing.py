"""Pages of tables: filters, orders, and cursors while tables come, go and become late."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.errors import FactUnreadable, RequestInvalid
from mt_core.gateway.facts.listing import Listed, Listing
from mt_core.gateway.facts.query import Query, cursor
from mt_core.model.table import RefreshMode, SuspendedBy
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable
from tests.support.registry_facts import HOUR, NOON
from tests.support.table_facts import table_facts, table_named

MINUTE = timedelta(minutes=1)
WORST_FIRST = [
    table_facts("a_late", state=State.LATE, late_at=NOON - HOUR),
    table_facts("b_later", state=State.LATE, late_at=NOON - MINUTE),
    table_facts("b_failing", state=State.FAILING, late_at=NOON + HOUR),
    table_facts("a_doubted", state=State.DOUBTED, late_at=NOON + HOUR),
    table_facts("z_soon", state=State.SOON, late_at=NOON + MINUTE),
    table_facts("a_soon", state=State.SOON, late_at=NOON + 2 * MINUTE),
    table_facts("z_gave_up", state=State.SUSPENDED, late_at=None, suspended_by=SuspendedBy.FAILURES),
    table_facts("a_suspended", state=State.SUSPENDED, late_at=None, suspended_by=SuspendedBy.USER),
    table_facts("a_new", state=State.INITIALIZING, late_at=None),
    table_facts("z_silent", late_at=NOON + 3 * HOUR, fault=Fault.WRITER),
    table_facts("a_fine", late_at=NOON + 3 * HOUR),
    table_facts("b_fine", late_at=NOON + 2 * HOUR),
]
BY_NAME = sorted(WORST_FIRST, key=lambda table: table.identifier)


def page(tables: list[Any], now: datetime = NOON, **parameters: str) -> dict[str, Any]:
    return Listing.of(Query({name.strip("_"): text for name, text in parameters.items()})).page(tables, now)


def names(body: dict[str, Any]) -> list[str]:
    return [table["table"] for table in body["tables"]]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("", BY_NAME),
        ("name", BY_NAME),
        ("-NAME", BY_NAME[::-1]),
        ("-late", WORST_FIRST),
        ("Late", WORST_FIRST[::-1]),
    ],
)
def test_tables_are_in_the_requested_order_on_whatever_page(sort: str, expected: list[Any]) -> None:
    found, after = [], ""
    while True:
        body = page(BY_NAME, sort=sort, after=after, limit="3")
        found += names(body)
        after = body["next"] or ""
        if not after:
            break

    assert found == [table.identifier.name for table in expected]


@given(
    before=st.frozensets(st.text("ab`.é\n", min_size=1, max_size=3), max_size=12),
    after=st.frozensets(st.text("ab`.é\n", min_size=1, max_size=3), max_size=12),
    limit=st.integers(1, 4),
    sort=st.sampled_from(["name", "-name", "late", "-late"]),
)
def test_a_table_that_is_there_all_the_time_is_on_one_page_whatever_else_comes_and_goes(
    before: frozenset[str], after: frozenset[str], limit: int, sort: str
) -> None:
    def tables(of: frozenset[str]) -> list[Listed]:
        states = [State.OK, State.LATE]
        return [table_facts(name, state=states[len(name) % 2]) for name in sorted(of)]

    first = page(tables(before), sort=sort, limit=str(limit))
    found, following = names(first), first["next"]
    while following:
        body = page(tables(after), sort=sort, limit=str(limit), after=following)
        found, following = found + names(body), body["next"]

    lasting = before & after if len(before) > limit else before
    assert sorted(name for name in found if name in lasting) == sorted(lasting)
    assert len(found) == len(set(found))


def test_a_cursor_stays_where_it_is_while_late_tables_get_later() -> None:
    first = page(BY_NAME, sort="-late", limit="1")

    late = [table for table in BY_NAME if table.state is State.LATE]
    second = page(late, NOON + HOUR, sort="-late", limit="1", after=first["next"])

    assert (names(first), names(second), second["next"]) == (["a_late"], ["b_later"], None)


def test_a_selection_says_where_any_of_its_pages_begins() -> None:
    selection = Listing.of(Query({"sort": "-late", "limit": "2"})).select(BY_NAME)

    pages = [
        names(page(BY_NAME, sort="-late", limit="2", after=selection.cursor_at(index))) for index in (0, 1, 4)
    ]

    worst = [table.identifier.name for table in WORST_FIRST]
    assert pages == [worst[0:2], worst[1:3], worst[4:6]]
    assert (selection.begin, selection.end, selection.cursor_at(0)) == (0, 2, "")
    assert [table.identifier.name for table in selection.page] == worst[:2]


def test_counts_are_of_all_states_and_only_of_tables_that_meet_the_other_filters() -> None:
    elsewhere = table_facts("x", namespace="web", state=State.LATE)

    body = page([*BY_NAME, elsewhere], state="late, soon", in_="lake.shop", q="_soon")

    assert names(body) == ["a_soon", "z_soon"]
    assert body["counts"] == {**dict.fromkeys(State, 0), "SOON": 2}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"mode": "continuous"}, ["live"]),
        ({"mode": "FULL,continuous"}, ["live", "nested", "full"]),
        ({"in_": "lake"}, ["live", "nested", "full"]),
        ({"in_": "lake.shop"}, ["live", "full"]),
        ({"in_": "`lake`.`a.b`"}, ["nested"]),
        ({"in_": "lake.a.b"}, []),
        ({"in_": "other"}, []),
        ({"q": "SOURCE"}, ["full"]),
        ({"q": "lake.a.b.nest"}, ["nested"]),
        ({"q": "`a.b`.nest"}, ["nested"]),
        ({"q": "nothing"}, []),
        ({"fault": "Writer"}, ["full"]),
        ({"fault": "queue"}, []),
    ],
)
def test_a_filter_keeps_what_it_names(parameters: dict[str, str], expected: list[str]) -> None:
    tables = [
        table_facts("live", mode=RefreshMode.CONTINUOUS),
        table_facts("nested", namespace="a.b"),
        table_facts("full", "source", fault=Fault.WRITER),
    ]

    assert names(page(tables, **parameters)) == expected


def test_a_table_that_cannot_be_read_is_failing_and_found_by_its_name() -> None:
    columns = {"table_id": "id-bad", "catalog": "lake", "namespace": "shop", "name": "bad"}
    bad = UnreadableTable.of(FactUnreadable("Its version is 7.", columns=columns))

    [entry] = page([bad, table_facts("good")], state="FAILING", q="bad")["tables"]

    assert entry.keys() == page([table_facts("good")])["tables"][0].keys()
    assert (entry["id"], entry["name"], entry["state"]) == ("id-bad", str(table_named("bad")), "FAILING")
    assert (entry["because"], entry["mode"]) == ("cannot be read: Its version is 7.", None)
    assert page([bad], mode="FULL")["tables"] == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"state": "late,fine"}, "state must be SUSPENDED, LATE, .* or INITIALIZING, not 'fine'"),
        ({"fault": "none"}, "fault must be source, writer, queue, query or schedule, not 'none'"),
        ({"mode": "half"}, "mode must be FULL or CONTINUOUS, not 'half'"),
        ({"sort": "shows"}, "sort must be name, -name, late or -late, not 'shows'"),
        ({"sort": "name,late"}, "sort must be one of name, -name, late, -late, not several"),
        ({"in_": "lake."}, "in must be a name such as lake.sales, .* not 'lake.'"),
        ({"limit": "0"}, "limit must be a whole number from 1 to 500, not '0'"),
        ({"limit": "501"}, "limit must be"),
        ({"limit": "-1"}, "limit must be"),
        ({"limit": "1e2"}, "limit must be"),
        ({"limit": "٣"}, "limit must be"),
        ({"after": "!"}, "after must be `next` of an earlier answer"),
        ({"after": "é"}, "after must be"),
        ({"after": "WzFd"}, "after must be"),
        ({"after": cursor("tables by name", 0, 0.0, "lake", ["shop"])}, "after must be"),
        ({"after": cursor("tables by name", 0, 0.0, "lake", [1], "t")}, "after must be"),
        ({"after": cursor("tables by name", 0, 0.0, "lake", ["shop"], "t"), "sort": "late"}, "after must be"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused_by_name(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(RequestInvalid, match=message):
        page(BY_NAME, **parameters)
