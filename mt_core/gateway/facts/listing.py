"""A page of tables: filters, the order, and where the page begins.

The overview has all tables in memory, sorted by name, so a page is cut from a list. A table's place in an
order consists of what does not change while nothing happens to the table: by how much it is late does, but
since when does not. So a cursor, which is a place, means the same a minute later.

The resource under /freshtable/v1 shows a page as JSON, and the page below /ui as rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mt_core.gateway.facts.json_form import JSON, counts_json, table_json
from mt_core.gateway.facts.query import AFTER, LIMIT, Parameter, Query, cursor, not_a_cursor
from mt_core.gateway.http.schemas import one_of
from mt_core.model.table import RefreshMode, SuspendedBy
from mt_core.tables.overview.facts import TableFacts, searched_text
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable

Listed = TableFacts | UnreadableTable
Place = tuple[int, float, str, tuple[str, ...], str]


class Sort(StrEnum):
    """An order of tables: by name, or by state and the time at which the table is late."""

    NAME = "name"
    NAME_DESCENDING = "-name"
    LATE = "late"
    LATE_DESCENDING = "-late"


PARAMETERS = (
    Parameter(
        name="state", description=f"Only tables in these states, separated by commas: {', '.join(State)}."
    ),
    Parameter(
        name="mode",
        description=f"Only tables with these modes, separated by commas: {', '.join(RefreshMode)}.",
    ),
    Parameter(
        name="fault",
        description=f"Only tables with these faults, separated by commas: {', '.join(Fault)}. "
        "A table with the fault writer is not late.",
    ),
    Parameter(name="in", description="Only tables in this catalog or namespace, such as `lake.sales`."),
    Parameter(
        name="q", description="Only tables whose name, or the name of a source, contains this, in any case."
    ),
    Parameter(
        name="sort",
        description="`name`, or `-late` for the worst first; `-name` and `late` are the reverse.",
        schema={**one_of(*Sort), "default": Sort.NAME},
    ),
    AFTER,
    LIMIT,
)
_WORST_FIRST = (
    State.LATE,
    State.FAILING,
    State.DOUBTED,
    State.SOON,
    State.SUSPENDED,
    State.INITIALIZING,
    State.OK,
)
_RANKS = {state: rank for rank, state in enumerate(_WORST_FIRST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A request for a page of up to `limit` tables that follow the place `after`.

    Any table is listed if there are no `states`, `modes`, `faults`, no catalog or namespace (`within`), and
    no `part` of a name.
    """

    states: frozenset[State]
    modes: frozenset[RefreshMode]
    faults: frozenset[Fault]
    within: tuple[str, ...]
    part: str
    sort: Sort
    after: Place | None
    limit: int

    @classmethod
    def of(cls, query: Query, *, usual: Sort = Sort.NAME, limit: Parameter = LIMIT) -> Listing:
        """Read the request from its query; *usual* is the order if it names none. Raises RequestInvalid."""
        sort = query.choice("sort", Sort) or usual
        position = query.position(f"tables by {sort}", int, float, str, list, str)
        return cls(
            states=query.choices("state", State),
            modes=query.choices("mode", RefreshMode),
            faults=query.choices("fault", Fault),
            within=query.parts("in"),
            part=searched_text(query.text("q")),
            sort=sort,
            after=None if position is None else _place(*position),
            limit=query.number(limit),
        )

    def page(self, tables: Iterable[Listed], now: datetime) -> JSON:
        """Return the page at *now* of *tables*, which are sorted by name.

        `counts` has the number of tables in each state, whatever states are requested.
        """
        selection = self.select(tables)
        return {
            "counts": counts_json(selection.counts),
            "tables": [table_json(table, now) for table in selection.page],
            "next": selection.cursor_at(selection.end) if selection.end < len(selection.listed) else None,
        }

    def select(self, tables: Iterable[Listed]) -> Selection:
        """Return what is requested of *tables*, which are sorted by name."""
        matching = [table for table in tables if self._matches(table)] if self._has_filter else list(tables)
        by_state: dict[State, list[Listed]] = {state: [] for state in _WORST_FIRST}
        for table in matching:
            by_state[state_of(table)].append(table)
        counts = Counter({state: len(tables) for state, tables in by_state.items()})
        if self.sort in (Sort.LATE, Sort.LATE_DESCENDING):
            matching = [
                table for state, tables in by_state.items() for table in sorted(tables, key=_URGENCY[state])
            ]
        listed = [table for table in matching if state_of(table) in self.states] if self.states else matching
        begin = 0
        if self.after is not None and self.is_reversed:
            begin = len(listed) - bisect_left(listed, self.after, key=self.place_of)
        elif self.after is not None:
            begin = bisect_right(listed, self.after, key=self.place_of)
        if self.is_reversed:
            listed.reverse()
        return Selection(listing=self, counts=counts, listed=listed, begin=begin)

    @property
    def is_reversed(self) -> bool:
        return self.sort in (Sort.NAME_DESCENDING, Sort.LATE)

    @property
    def _has_filter(self) -> bool:
        return bool(self.modes or self.faults or self.within or self.part)

    def _matches(self, table: Listed) -> bool:
        if self.modes and (isinstance(table, UnreadableTable) or table.mode not in self.modes):
            return False
        if self.faults and (isinstance(table, UnreadableTable) or table.fault not in self.faults):
            return False
        if self.within and table.identifier.parts[:-1][: len(self.within)] != self.within:
            return False
        return not self.part or self.part in _searched(table)

    def place_of(self, table: Listed) -> Place:
        name = table.identifier
        rank, instant, state = 0, 0.0, state_of(table)
        if self.sort in (Sort.LATE, Sort.LATE_DESCENDING):
            rank, instant = _RANKS[state], float(_URGENCY[state](table))
        return rank, instant, name.catalog, name.namespace, name.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tables that a listing requests.

    `listed` are all of them in their order, on whatever page; the requested page is at `begin`. `counts` has
    the number of tables in each state that meet the filters, whatever states are requested.
    """

    listing: Listing
    counts: Counter[State]
    listed: Sequence[Listed]
    begin: int

    @property
    def end(self) -> int:
        return min(self.begin + self.listing.limit, len(self.listed))

    @property
    def page(self) -> Sequence[Listed]:
        return self.listed[self.begin : self.end]

    def cursor_at(self, index: int) -> str:
        """Return the cursor of the page that begins at *index*; "" for the first page."""
        if index <= 0:
            return ""
        return cursor(f"tables by {self.listing.sort}", *self.listing.place_of(self.listed[index - 1]))


def state_of(table: Listed) -> State:
    return table.state if isinstance(table, TableFacts) else State.FAILING


def _late_at(table: Listed) -> float:
    late_at = table.late_at if isinstance(table, TableFacts) else None
    return 0.0 if late_at is None else late_at.timestamp()


# How urgent a table is among those in the same state; a lower value is more urgent. In states without a time,
# the tables that need a person come first: those that failures have suspended, and those whose sources are
# silent. Most tables are OK, so that one decides how long sorting takes.
_URGENCY: Mapping[State, Callable[[Any], float]] = {
    **dict.fromkeys(_WORST_FIRST, _late_at),
    State.SUSPENDED: lambda table: table.suspended_by is not SuspendedBy.FAILURES,
    State.INITIALIZING: lambda table: table.fault is None,
    State.OK: lambda table: table.fault is None,
}


def _place(rank: int, instant: float, catalog: str, namespace: Sequence[object], name: str) -> Place:
    if not all(isinstance(level, str) for level in namespace):
        raise not_a_cursor()
    return rank, instant, catalog, tuple(map(str, namespace)), name


def _searched(table: Listed) -> str:
    if isinstance(table, TableFacts):
        return table.searched
    return searched_text(".".join(table.identifier.parts))
