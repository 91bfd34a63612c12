"""The overview: the standings of all tables in memory, kept up with the registry.

Whoever shows tables reads them here, so that no page, scrape or statement that shows thousands of tables
costs the registry more than one question: has anything changed? What has changed is read on the registry's
reading connection, which takes part in no transaction of commands and refreshes. It is shown, never decided
on.

The overview is right because of the number alone: it reads what changed after the number that it has seen,
whichever gateway changed it. Events only say that it is time to look. Whoever shows what may be the result of
an own statement calls `catch_up` first.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from mt_core.clock import Clock
from mt_core.errors import FactUnreadable
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.events import Fact, StepDone
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.judgements import Judgements
from mt_core.tables.overview.reading import DEEP, FEW, job_errors, with_refreshes
from mt_core.tables.overview.standing import Standing
from mt_core.tables.overview.standings import Entry, Standings
from mt_core.tables.pages import PAGE, UnreadableTable
from mt_core.tables.registry import Registry, Transaction, each_row

T = TypeVar("T")
LOOK_EVERY = timedelta(seconds=30)
# After a pass, the next one waits for this long, and for this many times what the pass took.
SHORTEST_PAUSE, PAUSE_SHARE = timedelta(seconds=0.5), 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many of all tables have been read while the overview is built.

    `total` is 0 at first, and rises while the tables are listed.
    """

    read: int = 0
    total: int = 0


class Overview:
    """The facts about all tables. Thread-safe: readers see the result of the last complete pass.

    *fresh_at* maps the ids of CONTINUOUS tables to the time at which their sources were last found unchanged;
    the source watcher writes it at any time.
    """

    def __init__(self, registry: Registry, clock: Clock, fresh_at: Mapping[str, datetime]) -> None:
        self.progress = Progress()
        self._registry, self._clock, self._fresh_at = registry, clock, fresh_at
        self._judgements = Judgements(fresh_at)
        self._woken, self._ended = threading.Event(), threading.Event()
        self._woken.set()
        # What the last pass read, up to which change (None: there was none), and when by both clocks.
        self._passing = threading.Lock()
        self._standings = Standings()
        self._seen: int | None = None
        self._time = clock.now(), clock.elapsed()
        # Versions of an earlier process must not be mistaken for those of this one.
        self._began = f"{clock.now().timestamp():.6f}"

    # -------------------------------------------------------------------------------------------------- facts

    def now(self) -> datetime:
        """Return the time of the registry's clock, as far as it is known without asking the registry."""
        at, elapsed = self._time
        return at + (self._clock.elapsed() - elapsed)

    @property
    def is_built(self) -> bool:
        """Whether the first pass has ended, which reads all tables."""
        return self._seen is not None

    def version(self, now: datetime) -> str:
        """Return text that changes whenever the facts may have changed in more than their ages."""
        return f"{self._began}.{self._judgements.version(now)}"

    def facts(self, now: datetime) -> Sequence[TableFacts | UnreadableTable]:
        """Return the facts about all tables at *now*, sorted by identifier. There are none before a pass."""
        return self._judgements.facts(now)

    def table(self, table_id: str, now: datetime) -> TableFacts | None:
        """Return the facts about a table at *now*, or None if it does not exist or cannot be read."""
        return self._judgements.table(table_id, now)

    def named(self, identifier: TableIdentifier, now: datetime) -> TableFacts | None:
        """Return the facts about the table with this name at *now*, or None as `table` does."""
        return self._judgements.named(identifier, now)

    def rows(self) -> Iterator[MaterializedTable]:
        """Yield the rows of all tables as the last pass read them, but without columns, query and options."""
        return (entry.row for entry in self._standings.entries.values() if isinstance(entry, Standing))

    # ------------------------------------------------------------------------------------------------- passes

    def wake(self) -> None:
        """Let the loop look for changes now. Returns at once."""
        self._woken.set()

    def note(self, fact: Fact) -> None:
        """Wake the loop because of *fact*, unless nothing that is shown has changed."""
        if not isinstance(fact, StepDone):
            self.wake()

    def end(self) -> None:
        """End the waits of the loop."""
        self._ended.set()
        self._woken.set()

    def keep_up(self) -> None:
        """Wait until something may have changed, at most 30 seconds, and catch up: one pass of a loop."""
        self._clock.wait(LOOK_EVERY, self._woken)
        if self._ended.is_set():
            return
        self._woken.clear()
        began = self._clock.elapsed()
        self.catch_up()
        took = self._clock.elapsed() - began
        self._clock.wait(max(SHORTEST_PAUSE, took * PAUSE_SHARE), self._ended)

    def catch_up(self) -> None:
        """Read what has changed since the last pass; the first pass reads everything."""
        with self._passing:
            with self._registry.reading() as tx:
                self._time = tx.now(), self._clock.elapsed()
                newest = tx.changes.newest()
                changed = self._changed(tx, newest)
            if changed is None:
                every = self._every_table()
                self._take_over(Standings(), {**dict.fromkeys(self._standings.entries), **every})
            elif changed:
                self._take_over(self._standings, self._stored(changed))
            self._seen = newest

    def _changed(self, tx: Transaction, newest: int) -> Collection[str] | None:
        """Return the ids of the tables that have changed since the last pass, or None for all tables."""
        if self._seen is None or newest < self._seen:
            # Numbers fall only if the registry was restored from a backup.
            return None
        changed = set(tx.changes.tables_after(self._seen)) if newest > self._seen else set()
        errors = job_errors(tx, self._standings.streams)
        return changed | {
            table_id
            for table_id in self._standings.streams
            if isinstance(entry := self._standings.entries[table_id], Standing)
            and errors.get(table_id) != entry.job_error
        }

    def _every_table(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        after: TableIdentifier | None = None
        while True:
            with self._registry.reading() as tx:
                rows = [_entry(row) for row in each_row(tx, partial(tx.tables.page, after=after, limit=PAGE))]
            entries.update(rows)
            if self._seen is None:
                self.progress = Progress(total=len(entries))
            if len(rows) < PAGE:
                return entries
            after = rows[-1][1].identifier

    def _stored(self, table_ids: Collection[str]) -> dict[str, Entry | None]:
        """Return tables as they are stored now, with what is known of their refreshes; None if dropped."""
        stored: dict[str, Entry | None] = {}
        for chunk in _chunks(table_ids):
            names = self._standings.names_of(chunk)
            with self._registry.reading() as tx:
                # Most of them have had a refresh, and are still there.
                found = dict(map(_entry, each_row(tx, partial(tx.tables.with_names, names))))
                for table_id in chunk:
                    stored[table_id] = found.get(table_id) or _stored(tx, table_id)
        for table_id, entry in stored.items():
            before = self._standings.entries.get(table_id)
            if isinstance(entry, Standing) and isinstance(before, Standing):
                stored[table_id] = replace(entry, refreshes=before.refreshes)
        return stored

    def _take_over(self, before: Standings, changes: Mapping[str, Entry | None]) -> None:
        """Read the refreshes of changed tables, and show the result to readers."""
        standings = before.with_changes({**changes, **self._with_refreshes(changes.values(), most=FEW)})
        names = standings.names_of(changes) | before.names_of(changes)
        affected = set(changes) | standings.above(names)
        while short := standings.short_for(affected, dict(self._fresh_at)):
            deep = self._with_refreshes([standings.entries[each] for each in short], most=DEEP)
            standings = standings.with_changes(deep)
        self._judgements.replace(standings, affected)
        self._standings = standings
        # Judged here, so that no reader has to wait until thousands of tables are.
        self._judgements.version(self.now())
        self.progress = Progress(read=len(standings.entries), total=len(standings.entries))

    def _with_refreshes(self, entries: Collection[Entry | None], *, most: int) -> dict[str, Entry]:
        standings = [each for each in entries if isinstance(each, Standing)]
        read: dict[str, Entry] = {}
        for chunk in _chunks(standings):
            if self._seen is None and most == FEW:
                self.progress = Progress(read=len(read), total=len(standings))
            with self._registry.reading() as tx:
                read |= {each.table_id: each for each in with_refreshes(tx, chunk, most=most)}
        return read


def _chunks(values: Iterable[T]) -> Iterator[list[T]]:
    every = list(values)
    yield from (every[start : start + PAGE] for start in range(0, len(every), PAGE))


def _stored(tx: Transaction, table_id: str) -> Entry | None:
    try:
        table = tx.tables.get(table_id)
    except FactUnreadable as error:
        return UnreadableTable.of(error)
    return None if table is None else Standing.of(table)


def _entry(row: MaterializedTable | FactUnreadable) -> tuple[str, Entry]:
    """Return the id and the entry of a stored table."""
    if isinstance(row, FactUnreadable):
        return str(row.columns["table_id"]), UnreadableTable.of(row)
    return row.table_id, Standing.of(row)
