"""A value state per key, with a TTL policy."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import ValueState

from mt_core.spark.streams.state.entries import Entry, EntryTimes, Value


class PolicyValueState:
    """The value of the current key. Only `get` counts as a read."""

    def __init__(self, state: ValueState, entries: EntryTimes) -> None:
        self._state, self._entries = state, entries

    def exists(self) -> bool:
        """Return whether there is a value that has not expired."""
        return self._live() is not None

    def get(self) -> Value | None:
        """Return the value, or None if it is absent or has expired."""
        entry = self._live()
        if entry is None:
            return None
        after = self._entries.read(entry)
        if after is not entry:
            self._state.update(self._entries.stored(after))
        return after.value

    def update(self, value: Value) -> None:
        """Set the value, with one item for each column of the schema."""
        after = self._entries.written(value, self._live())
        if after is None:
            self._state.clear()
        else:
            self._state.update(self._entries.stored(after))

    def clear(self) -> None:
        """Remove the value."""
        self._state.clear()

    def next_expiry(self) -> int | None:
        """Remove the value if it has expired; return its expiry, or None if it is absent."""
        entry = self._live()
        return None if entry is None else self._entries.expires(entry)

    def _live(self) -> Entry | None:
        stored = self._state.get()
        if stored is None:
            return None
        entry = self._entries.loaded(stored)
        if entry is None:
            self._state.clear()
        elif entry.is_moved:
            self._state.update(self._entries.stored(entry))
        return entry
