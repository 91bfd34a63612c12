"""The standings of all tables at one moment, and which tables depend on which."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mt_core.model.table import TableIdentifier
from mt_core.tables.overview.chain import Chain
from mt_core.tables.overview.standing import Standing
from mt_core.tables.pages import UnreadableTable

Entry = Standing | UnreadableTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """The *entries* by table id, the standings among them by name, and the ids of the readers of each name.

    `order` has the ids sorted by name. `streams` are the ids of the tables that streaming jobs maintain, and
    `watched` of those that the source watcher refreshes.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    named: Mapping[TableIdentifier, Standing] = field(default_factory=dict)
    readers: Mapping[TableIdentifier, Collection[str]] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    streams: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()

    def with_changes(self, changes: Mapping[str, Entry | None]) -> Standings:
        """Return these with the *changes*, by table id; None removes a table."""
        entries, named, readers = dict(self.entries), dict(self.named), dict(self.readers)
        changed = {table_id: entry for table_id, entry in changes.items() if isinstance(entry, Standing)}
        before = {
            table_id: entry
            for table_id in changes
            if isinstance(entry := self.entries.get(table_id), Standing)
        }
        touched = {
            name: set(readers.get(name, ()))
            for standing in (*before.values(), *changed.values())
            for name in standing.refreshes.names_read
        }
        for table_id, standing in before.items():
            del named[standing.identifier]
            for name in standing.refreshes.names_read:
                touched[name].discard(table_id)
        for table_id, standing in changed.items():
            named[standing.identifier] = standing
            for name in standing.refreshes.names_read:
                touched[name].add(table_id)
        for table_id, entry in changes.items():
            if entry is None:
                entries.pop(table_id, None)
            else:
                entries[table_id] = entry
        order = self.order
        if entries.keys() != self.entries.keys():
            order = tuple(sorted(entries, key=lambda table_id: _place(entries[table_id].identifier)))
        return Standings(
            entries=entries,
            named=named,
            readers=readers | touched,
            order=order,
            streams=self.streams - changes.keys() | {each for each in changed if changed[each].streams},
            watched=self.watched - changes.keys() | {each for each in changed if changed[each].is_watched},
        )

    def names_of(self, table_ids: Collection[str]) -> set[TableIdentifier]:
        return {entry.identifier for each in table_ids if (entry := self.entries.get(each)) is not None}

    def above(self, names: Collection[TableIdentifier]) -> set[str]:
        """Return the ids of the tables that read any of *names*, directly or through others."""
        above: set[str] = set()
        level = set(names)
        while level:
            found = {reader for name in level for reader in self.readers.get(name, ())} - above
            above |= found
            level = self.names_of(found)
        return above

    def live(self) -> frozenset[str]:
        """Return the ids of the tables whose data-as-of time changes while sources are polled."""
        return self.watched | self.above(self.names_of(self.watched))

    def short_for(self, table_ids: Collection[str], fresh_at: Mapping[str, datetime]) -> set[str]:
        """Return the tables whose standings do not reach back to versions that *table_ids* show."""
        chain = Chain(standings=self.named, fresh_at=fresh_at)
        for table_id in table_ids:
            standing = self.entries.get(table_id)
            if isinstance(standing, Standing):
                chain.data_as_of(standing)
        return chain.short


def _place(identifier: TableIdentifier) -> tuple[object, ...]:
    """Return a key that sorts as the identifier does, in a tenth of the time."""
    return identifier.catalog, identifier.namespace, identifier.name
