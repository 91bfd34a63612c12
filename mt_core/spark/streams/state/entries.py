"""State entries, which are stored with the time of their last modification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from mt_core.plans.policies import StateAccess, TtlPolicy, TtlTimeCharacteristic
from mt_core.spark.streams.state.key_times import KeyTimes
from mt_core.spark.streams.state.owned_timers import STATES, OwnedTimers

Value = tuple[Any, ...]
_LAST, _EVENT = "__last_modified", "__in_event_time"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value with the time of its last modification.

    `is_moved` means that the stored entry still has the other time domain.
    """

    value: Value
    last_modified: int
    is_moved: bool = False


def stored_type(schema: StructType | str) -> StructType | str:
    """Return the type in which entries with *schema* are stored.

    It is the same for all policies, so that the policy can be changed.
    """
    if isinstance(schema, str):
        return f"{schema}, {_LAST} BIGINT, {_EVENT} BOOLEAN"
    return StructType([*schema.fields, StructField(_LAST, LongType()), StructField(_EVENT, BooleanType())])


class EntryTimes:
    """The modification and expiry times of a state's entries for the current key, under a policy.

    With `by_timer`, the timers run in the policy's time domain and remove expired entries. Without it,
    expired entries are removed when the next row with their key arrives.
    """

    def __init__(self, policy: TtlPolicy, times: KeyTimes, timers: OwnedTimers, *, by_timer: bool) -> None:
        self._policy, self._times, self._timers, self._by_timer = policy, times, timers, by_timer
        self._in_event_time = policy.time is TtlTimeCharacteristic.EVENT_TIME

    def loaded(self, stored: Value) -> Entry | None:
        """Return the entry in *stored*, or None if it has expired.

        An entry that was stored under a policy with the other time domain counts as modified now.
        """
        *value, last, in_event_time = stored
        if in_event_time != self._in_event_time:
            return Entry(tuple(value), self._times.now(self._policy.time), is_moved=True)
        return self._living(Entry(tuple(value), last))

    def read(self, entry: Entry) -> Entry:
        """Return *entry* after a read."""
        return self._accessed(entry, StateAccess.READ, entry.value)

    def written(self, value: Value, before: Entry | None) -> Entry | None:
        """Return the entry with *value* that replaces *before*, or None if it has already expired."""
        if before is None:
            return self._living(Entry(tuple(value), self._times.at(self._policy.time)))
        return self._accessed(before, StateAccess.WRITE, tuple(value))

    def stored(self, entry: Entry) -> Value:
        """Return the columns stored for *entry* and register the timer that removes it when it expires."""
        if self._by_timer:
            self._timers.register_before(STATES, self.expires(entry))
        return (*entry.value, entry.last_modified, self._in_event_time)

    def expires(self, entry: Entry) -> int:
        """Return the instant when *entry* expires."""
        return self._policy.expires(entry.last_modified)

    def _accessed(self, entry: Entry, access: StateAccess, value: Value) -> Entry:
        last = self._policy.after(access, entry.last_modified, self._times.at(self._policy.time))
        return entry if (value, last) == (entry.value, entry.last_modified) else Entry(value, last)

    def _living(self, entry: Entry) -> Entry | None:
        expired = self._policy.has_expired(entry.last_modified, self._times.now(self._policy.time))
        return None if expired else entry
