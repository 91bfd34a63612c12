"""A map state per key, whose entries expire individually under a TTL policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.streaming.stateful_processor import MapState

from mt_core.spark.streams.state.entries import Entry, EntryTimes, Value


class PolicyMapState:
    """The map of the current key. `get_value` reads one entry, and `items` reads all entries."""

    def __init__(self, state: MapState, entries: EntryTimes) -> None:
        self._state, self._entries = state, entries

    def exists(self) -> bool:
        """Return whether the map has an entry that has not expired."""
        return bool(self._all())

    def contains_key(self, key: Value) -> bool:
        """Return whether *key* has a value that has not expired."""
        return self._live(key) is not None

    def get_value(self, key: Value) -> Value | None:
        """Return the value of *key*, or None if it is absent or has expired."""
        entry = self._live(key)
        return None if entry is None else self._read(key, entry)

    def update_value(self, key: Value, value: Value) -> None:
        """Set the value of *key* to *value*."""
        after = self._entries.written(value, self._live(key))
        if after is None:
            self._state.removeKey(key)
        else:
            self._state.updateValue(key, self._entries.stored(after))

    def keys(self) -> Sequence[Value]:
        """Return the keys whose values have not expired."""
        return list(self._all())

    def items(self) -> Mapping[Value, Value]:
        """Return all entries that have not expired."""
        return {key: self._read(key, entry) for key, entry in self._all().items()}

    def remove_key(self, key: Value) -> None:
        """Remove *key* and its value."""
        self._state.removeKey(key)

    def clear(self) -> None:
        """Remove all entries."""
        self._state.clear()

    def next_expiry(self) -> int | None:
        """Remove expired entries; return the next expiry, or None if the map is empty."""
        return min((self._entries.expires(entry) for entry in self._all().values()), default=None)

    def _read(self, key: Value, entry: Entry) -> Value:
        after = self._entries.read(entry)
        if after is not entry:
            self._state.updateValue(key, self._entries.stored(after))
        return after.value

    def _all(self) -> Mapping[Value, Entry]:
        # Read the whole map before changing it.
        entries = [
            (tuple(key), self._unexpired(tuple(key), stored)) for key, stored in list(self._state.iterator())
        ]
        return {key: entry for key, entry in entries if entry is not None}

    def _live(self, key: Value) -> Entry | None:
        stored = self._state.getValue(key)
        return None if stored is None else self._unexpired(key, stored)

    def _unexpired(self, key: Value, stored: Value) -> Entry | None:
        entry = self._entries.loaded(stored)
        if entry is None:
            self._state.removeKey(key)
        elif entry.is_moved:
            self._state.updateValue(key, self._entries.stored(entry))
        return entry
