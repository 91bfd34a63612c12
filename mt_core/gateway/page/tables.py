"""The first page: all tables, the worst first, with counters, filters and a search.

A page has 100 tables. Its link leads to the next hundred, and with scripts these are added to the end as the
reader scrolls there. The browser updates what it shows, so this is one window into the list: it grows to 300
tables, and then moves. A window is an address too, so that the reader finds it again when coming back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from mt_core.base.identifiers import display_name
from mt_core.errors import SqlSyntaxError, TableNotFound
from mt_core.gateway.facts.json_form import id_of
from mt_core.gateway.facts.listing import PARAMETERS, Listed, Listing, Selection, Sort
from mt_core.gateway.facts.query import whole_number
from mt_core.gateway.page.page import Page
from mt_core.gateway.page.sentences import STATE_WORDS, Sentence, why
from mt_core.sql.parser import parse_name
from mt_core.tables.overview.lateness import State

STEP, WINDOW = 100, 300
LIMIT = whole_number("limit", "The number of tables in the window.", least=1, most=WINDOW, usual=STEP)
_FILTERS = ("state", "mode", "in", "q", "sort")
_PARAMETERS = (*(each for each in PARAMETERS if each.name in (*_FILTERS, "after")), LIMIT)
# The words and states of the counters. Failed refreshes and rows in doubt both need a person who decides.
COUNTERS: Mapping[str, tuple[State, ...]] = {
    "late": (State.LATE,),
    "failing": (State.FAILING, State.DOUBTED),
    "soon": (State.SOON,),
    "suspended": (State.SUSPENDED,),
    "fresh": (State.OK, State.INITIALIZING),
}

# Statements that a user without tables can run unchanged.
FIRST_STATEMENTS = (
    "CREATE TABLE orders (id BIGINT, city STRING, amount DECIMAL(10,2)) USING iceberg",
    "INSERT INTO orders VALUES (1, 'Rome', 10.00), (2, 'Oslo', 5.50), (3, 'Rome', 7.25)",
    """CREATE MATERIALIZED TABLE revenue
FRESHNESS = INTERVAL '1' MINUTE
REFRESH_MODE = FULL
AS SELECT city, count(*) AS orders, sum(amount) AS revenue FROM orders GROUP BY city""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """The number of tables in some states, and the address at which only these are listed.

    If they already are, `is_chosen`, and all tables are listed at the address. `empty` of them have no rows
    yet.
    """

    word: str
    count: int
    empty: int
    is_chosen: bool
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the list goes on: the address of a page of it, and that of the window moved or grown to there."""

    page: str
    window: str


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the list with the parameters of a query, and the same with others."""

    path: str
    texts: Mapping[str, str]

    def to(self, **changes: str) -> str:
        """Return the address with changed filters, at the beginning of the list."""
        return self._with({**changes, "after": "", "limit": ""})

    def at(self, after: str, limit: int = STEP) -> str:
        """Return the address of *limit* tables after a cursor."""
        return self._with({"after": after, "limit": "" if limit == STEP else str(limit)})

    def _with(self, changes: Mapping[str, str]) -> str:
        texts = {name: text for name, text in {**self.texts, **changes}.items() if text}
        return self.path + (f"?{urlencode(texts, safe=',')}" if texts else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableList:
    """A selection of tables as the template shows it."""

    selection: Selection
    address: Address

    @property
    def rows(self) -> Sequence[Listed]:
        return self.selection.page

    @property
    def total(self) -> int:
        return len(self.selection.listed)

    @property
    def counters(self) -> list[Counter]:
        return [self._counter(word, states) for word, states in COUNTERS.items()]

    @property
    def previous(self) -> Place | None:
        """Where the list goes on before its first row, None if this is the first of all."""
        selection, limit = self.selection, self.selection.listing.limit
        if not selection.begin:
            return None
        cursor = selection.cursor_at(selection.begin - STEP)
        window = self.address.at(cursor, min(limit + STEP, WINDOW))
        return Place(page=self.address.at(cursor), window=window)

    @property
    def next(self) -> Place | None:
        """Where the list goes on after its last row, None if this is the last of all."""
        selection, limit = self.selection, self.selection.listing.limit
        if selection.end == self.total:
            return None
        first = selection.begin if limit < WINDOW else selection.begin + STEP
        window = self.address.at(selection.cursor_at(first), min(limit + STEP, WINDOW))
        return Place(page=self.address.at(selection.cursor_at(selection.end)), window=window)

    def sorted_by(self, first: str, then: str) -> str:
        """Return the address of the list in the order *first*, or *then* if that is its order now."""
        sort = then if self.selection.listing.sort == first else first
        return self.address.to(sort="" if sort == Sort.LATE_DESCENDING else sort)

    def _counter(self, word: str, states: tuple[State, ...]) -> Counter:
        counts, chosen = self.selection.counts, self.selection.listing.states == frozenset(states)
        wanted = ",".join(state.lower() for state in states)
        return Counter(
            word=word,
            count=sum(counts[state] for state in states),
            empty=counts[State.INITIALIZING] if State.INITIALIZING in states else 0,
            is_chosen=chosen,
            address=self.address.to(state="" if chosen else wanted),
        )


def tables_router(page: Page) -> APIRouter:
    """Return the endpoints of the list of tables, and of a table's name."""
    router = page.router()

    @router.get("/")
    def get_tables(request: Request) -> Response:
        query = page.query(request, _PARAMETERS)
        listing = Listing.of(query, usual=Sort.LATE_DESCENDING, limit=LIMIT)
        now, overview = page.now(), page.services.facts.overview

        def facts() -> dict[str, Any]:
            texts = {name: query.text(name) for name in _FILTERS}
            tables = overview.facts(now)
            shown = TableList(selection=listing.select(tables), address=Address(f"{page.base}/", texts))
            return {
                "tables": shown,
                "filters": texts,
                "is_built": overview.is_built,
                "namespaces": lambda: _namespaces(tables),
                "row_of": _row,
                "conditions": _conditions(texts),
                "first_statements": FIRST_STATEMENTS,
            }

        return page.answer(request, "tables.html", facts, version=_version(page, now))

    @router.get("/t/{name:path}")
    def get_named(name: str, request: Request) -> Response:
        page.query(request)
        parts = _parts(name)
        for table in page.services.facts.overview.facts(page.now()):
            if table.identifier.parts == parts and (table_id := id_of(table)) is not None:
                return page.redirect(f"/tables/{table_id}")
        raise TableNotFound(f"There is no materialized table {display_name(parts)}.")

    return router


def _version(page: Page, now: datetime) -> str:
    """Return the version of the rows, which changes each minute because of the bars."""
    overview = page.services.facts.overview
    progress, trouble = overview.progress, page.services.engine_trouble()
    return f"{overview.version(now)}.{progress.read}.{progress.total}.{now:%H%M}.{hash(trouble):x}"


def _namespaces(tables: Sequence[Listed]) -> list[str]:
    """Return the names of the catalogs and namespaces of *tables*, both sorted by name."""

    def space(table: Listed) -> tuple[str, ...]:
        return table.identifier.parts[:-1]

    found, at = set[tuple[str, ...]](), 0
    while at < len(tables):
        parts = space(tables[at])
        found |= {parts[:1], parts}
        at = bisect_right(tables, parts, lo=at, key=space)
    return [display_name(parts) for parts in sorted(found)]


def _conditions(filters: Mapping[str, str]) -> list[str]:
    """Return what a table has to do to be listed, each as the end of a sentence about it."""
    states = " or ".join(
        STATE_WORDS[State(each.strip().upper())] for each in filters["state"].split(",") if each.strip()
    )
    words = {
        "state": f"is {states}",
        "mode": f"has the refresh mode {filters['mode'].lower()}",
        "in": f"is in {filters['in']}",
        "q": f"has “{filters['q']}” in its name or in the name of a source",
    }
    return [text for name, text in words.items() if filters[name]]


def _row(table: Listed) -> tuple[str | None, tuple[Markup, Markup], Sentence]:
    """Return the id of a table, its name in two parts, of which the last is the one to look at, and why."""
    *space, name = table.identifier.parts
    return (
        id_of(table),
        (_breakable(f"{display_name(space)}."), _breakable(display_name((name,)))),
        why(table),
    )


def _breakable(name: str) -> Markup:
    """Return a name that a browser breaks after dots and underscores rather than within words."""
    return Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a name that is written as in SQL, or with slashes."""
    try:
        return parse_name(name)
    except SqlSyntaxError:
        return tuple(name.split("/"))
