"""The judgements on all tables: each is made once, and again at its turn.

Of ten thousand tables, few change in a second. A judgement is made again only if the registry's facts about
its table or a table below have changed, at its turn, or `LIVE` after it was made if it depends on when the
sources of a CONTINUOUS table were last found unchanged. The turns are in a heap, so that a poller learns in
microseconds that nothing has changed.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from mt_core.model.table import TableIdentifier
from mt_core.tables.overview.chain import Chain
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.judgement import Judgement, judge
from mt_core.tables.overview.standing import Standing
from mt_core.tables.overview.standings import Standings
from mt_core.tables.pages import UnreadableTable

# For how long judgements on CONTINUOUS tables hold while their sources are polled.
LIVE = timedelta(seconds=5)
# Callers read the clock before they wait for each other, so an instant this much earlier is not a clock that
# was set back.
OUT_OF_ORDER = timedelta(seconds=2)


class Judgements:
    """The judgements on the tables of the last `replace`. Thread-safe."""

    def __init__(self, fresh_at: Mapping[str, datetime]) -> None:
        self._lock = threading.Lock()
        self._fresh_at = fresh_at
        self._standings = Standings()
        self._live: frozenset[str] = frozenset()
        self._made: dict[str, tuple[datetime, Judgement]] = {}
        self._turns: list[tuple[datetime, str]] = []
        # The earliest turn of each table in the heap.
        self._queued: dict[str, datetime] = {}
        self._edition = 0
        # The facts about all tables in an edition, sorted, and where those are that depend on `fresh_at`.
        self._listed: list[TableFacts | UnreadableTable] = []
        self._listed_edition = -1
        self._live_places: list[int] = []
        # The latest instant of any judgement.
        self._latest: datetime | None = None

    def replace(self, standings: Standings, affected: Collection[str]) -> None:
        """Judge *standings* from now on, which differ in what is shown of *affected* tables."""
        live = standings.live()
        with self._lock:
            self._standings, self._live = standings, live
            for table_id in affected:
                self._made.pop(table_id, None)
            self._edition += 1

    def version(self, now: datetime) -> str:
        """Return text that changes whenever an answer may have changed in more than its ages."""
        with self._lock:
            self._pass_turns(now)
            live = f".{now.timestamp() // LIVE.total_seconds():.0f}" if self._live else ""
            return f"{self._edition}{live}"

    def facts(self, now: datetime) -> Sequence[TableFacts | UnreadableTable]:
        """Return the facts about all tables at *now*, sorted by identifier."""
        with self._lock:
            self._pass_turns(now)
            chain, entries, order = self._chain(), self._standings.entries, self._standings.order
            if self._listed_edition != self._edition:
                self._listed = [
                    entry if isinstance(entry, UnreadableTable) else self._facts(entry, chain, now)
                    for entry in map(entries.__getitem__, order)
                ]
                self._live_places = [place for place, each in enumerate(order) if each in self._live]
                self._listed_edition = self._edition
            for place in self._live_places:
                entry = entries[order[place]]
                if isinstance(entry, Standing):
                    self._listed[place] = self._facts(entry, chain, now)
            return tuple(self._listed)

    def table(self, table_id: str, now: datetime) -> TableFacts | None:
        """Return the facts about one table at *now*, or None if it does not exist or cannot be read."""
        with self._lock:
            self._pass_turns(now)
            entry = self._standings.entries.get(table_id)
            return self._facts(entry, self._chain(), now) if isinstance(entry, Standing) else None

    def named(self, identifier: TableIdentifier, now: datetime) -> TableFacts | None:
        """Return the facts about the table with this name at *now*, or None as `table` does."""
        standing = self._standings.named.get(identifier)
        return None if standing is None else self.table(standing.table_id, now)

    def _chain(self) -> Chain:
        return Chain(standings=self._standings.named, fresh_at=dict(self._fresh_at))

    def _facts(self, standing: Standing, chain: Chain, now: datetime) -> TableFacts:
        at, made = self._made[standing.table_id]
        if standing.table_id in self._live and abs(now - at) >= LIVE:
            made = self._judge(standing, chain, now)
        return made.facts

    def _judge(self, standing: Standing, chain: Chain, now: datetime) -> Judgement:
        made = judge(standing, chain, now)
        self._made[standing.table_id] = now, made
        queued = self._queued.get(standing.table_id)
        # The turn of a table whose sources are found unchanged each second is put off each second.
        if made.turn is not None and (queued is None or made.turn < queued):
            self._queued[standing.table_id] = made.turn
            heapq.heappush(self._turns, (made.turn, standing.table_id))
        return made

    def _pass_turns(self, now: datetime) -> None:
        """Make the judgements that are missing or whose turn has come, and count them as a new edition."""
        if self._latest is not None and now < self._latest - OUT_OF_ORDER:
            # The clock was set back.
            self._made.clear()
            self._latest = None
        self._latest = now if self._latest is None else max(now, self._latest)
        while self._turns and self._turns[0][0] <= now:
            turn, table_id = heapq.heappop(self._turns)
            if self._queued.get(table_id) == turn:
                del self._queued[table_id]
                self._made.pop(table_id, None)
        if len(self._made) == len(self._standings.named):
            return
        chain = self._chain()
        for standing in self._standings.named.values():
            if standing.table_id not in self._made:
                self._judge(standing, chain, now)
        self._edition += 1
