"""A list state per key, whose elements expire individually under a TTL policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.streaming.stateful_processor import ListState

from mt_core.spark.streams.state.entries import Entry, EntryTimes, Value


class PolicyListState:
    """The list of the current key.

    `get` reads all elements, and elements written by `put` count as newly created.
    """

    def __init__(self, state: ListState, entries: EntryTimes) -> None:
        self._state, self._entries = state, entries

    def exists(self) -> bool:
        """Return whether the list has an element that has not expired."""
        return bool(self._live())

    def get(self) -> Sequence[Value]:
        """Return the elements that have not expired, in the order in which they were appended."""
        live = self._live()
        after = [self._entries.read(entry) for entry in live]
        if any(new is not old for new, old in zip(after, live, strict=True)):
            self._store(after)
        return [entry.value for entry in after]

    def put(self, values: Iterable[Value]) -> None:
        """Replace the list with *values*."""
        self._store(self._created(values))

    def append_value(self, value: Value) -> None:
        """Append *value*."""
        self.append_list([value])

    def append_list(self, values: Iterable[Value]) -> None:
        """Append *values*."""
        stored = [self._entries.stored(entry) for entry in self._created(values)]
        if stored:
            self._state.appendList(stored)

    def clear(self) -> None:
        """Remove all elements."""
        self._state.clear()

    def next_expiry(self) -> int | None:
        """Remove expired elements; return the next expiry, or None if the list is empty."""
        return min((self._entries.expires(entry) for entry in self._live()), default=None)

    def _created(self, values: Iterable[Value]) -> Sequence[Entry]:
        entries = (self._entries.written(value, None) for value in values)
        return [entry for entry in entries if entry is not None]

    def _live(self) -> Sequence[Entry]:
        loaded = [self._entries.loaded(stored) for stored in self._state.get()]
        live = [entry for entry in loaded if entry is not None]
        if len(live) < len(loaded) or any(entry.is_moved for entry in live):
            self._store(live)
        return live

    def _store(self, entries: Sequence[Entry]) -> None:
        if entries:
            self._state.put([self._entries.stored(entry) for entry in entries])
        else:
            self._state.clear()
