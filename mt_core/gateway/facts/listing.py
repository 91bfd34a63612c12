"""A page of tables: filters, the order, and where the page begins.

The overview has all tables in memory, sorted by name, so a page is cut from a list. A table's place in an
order consists of what does not change while nothing happens to the table: by how much it is late does, but
since when does not. So a cursor, which is a place, means the same a minute later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mt_core.gateway.facts.json_form import JSON, counts_json, table_json
from mt_core.gateway.facts.query import AFTER, LIMIT, Parameter, Query, cursor, not_a_cursor
from mt_core.gateway.http.schemas import one_of
from mt_core.model.table import RefreshMode
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
# From the worst to the best.
_RANKS = {
    State.LATE: 0,
    State.FAILING: 1,
    State.DOUBTED: 2,
    State.SOON: 3,
    State.SUSPENDED: 4,
    State.INITIALIZING: 5,
    State.OK: 6,
}
# In these states, a table that is late earlier is worse.
_URGENT = frozenset({State.LATE, State.FAILING, State.DOUBTED, State.SOON})


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
    def of(cls, query: Query) -> Listing:
        """Read the request from its query. Raises RequestInvalid."""
        sort = query.choice("sort", Sort) or Sort.NAME
        position = query.position(f"tables by {sort}", int, float, str, list, str)
        return cls(
            states=query.choices("state", State),
            modes=query.choices("mode", RefreshMode),
            faults=query.choices("fault", Fault),
            within=query.parts("in"),
            part=searched_text(query.text("q")),
            sort=sort,
            after=None if position is None else _place(*position),
            limit=query.number(LIMIT),
        )

    def page(self, tables: Iterable[Listed], now: datetime) -> JSON:
        """Return the page at *now* of *tables*, which are sorted by name.

        `counts` has the number of tables in each state, whatever states are requested.
        """
        matching = [table for table in tables if self._matches(table)]
        counts = Counter(map(state_of, matching))
        listed = [table for table in matching if not self.states or state_of(table) in self.states]
        if self.sort in (Sort.LATE, Sort.LATE_DESCENDING):
            listed.sort(key=_urgency)
        if self._is_reversed:
            listed.reverse()
        following = [table for table in listed if self._follows(table)][: self.limit + 1]
        has_more = len(following) > self.limit
        page = following[: self.limit]
        return {
            "counts": counts_json(counts),
            "tables": [table_json(table, now) for table in page],
            "next": cursor(f"tables by {self.sort}", *self._place_of(page[-1])) if has_more else None,
        }

    @property
    def _is_reversed(self) -> bool:
        return self.sort in (Sort.NAME_DESCENDING, Sort.LATE)

    def _matches(self, table: Listed) -> bool:
        if self.modes and (isinstance(table, UnreadableTable) or table.mode not in self.modes):
            return False
        if self.faults and (isinstance(table, UnreadableTable) or table.fault not in self.faults):
            return False
        if self.within and table.identifier.parts[:-1][: len(self.within)] != self.within:
            return False
        return not self.part or self.part in _searched(table)

    def _follows(self, table: Listed) -> bool:
        if self.after is None:
            return True
        place = self._place_of(table)
        return place < self.after if self._is_reversed else place > self.after

    def _place_of(self, table: Listed) -> Place:
        name = table.identifier
        by_name = self.sort in (Sort.NAME, Sort.NAME_DESCENDING)
        rank, instant = (0, 0.0) if by_name else _urgency(table)
        return rank, instant, name.catalog, name.namespace, name.name


def state_of(table: Listed) -> State:
    return table.state if isinstance(table, TableFacts) else State.FAILING


def _urgency(table: Listed) -> tuple[int, float]:
    """Return how urgent a table is; a lower value is more urgent."""
    state = state_of(table)
    late_at = table.late_at if isinstance(table, TableFacts) and state in _URGENT else None
    return _RANKS[state], 0.0 if late_at is None else late_at.timestamp()


def _place(rank: int, instant: float, catalog: str, namespace: Sequence[object], name: str) -> Place:
    if not all(isinstance(level, str) for level in namespace):
        raise not_a_cursor()
    return rank, instant, catalog, tuple(map(str, namespace)), name


def _searched(table: Listed) -> str:
    if isinstance(table, TableFacts):
        return table.searched
    return searched_text(".".join(table.identifier.parts))
