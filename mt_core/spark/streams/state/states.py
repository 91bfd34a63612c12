"""The states and timers of a processor, which opens them before the first key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import StructType

from mt_core.plans.policies import TtlPolicy, TtlTimeCharacteristic
from mt_core.spark.streams.state.entries import EntryTimes, stored_type
from mt_core.spark.streams.state.key_times import KeyTimes
from mt_core.spark.streams.state.list_state import PolicyListState
from mt_core.spark.streams.state.map_state import PolicyMapState
from mt_core.spark.streams.state.owned_timers import STATES, OwnedTimers
from mt_core.spark.streams.state.value_state import PolicyValueState

_State = PolicyValueState | PolicyListState | PolicyMapState
_S = TypeVar("_S", PolicyValueState, PolicyListState, PolicyMapState)


class Timers:
    """The named timers of a processor for the current key, in the processor's time domain."""

    def __init__(self, owned: OwnedTimers) -> None:
        self._owned = owned

    def register(self, name: str, at: int) -> None:
        """Set the timer *name* to *at*, in milliseconds, replacing its earlier instant.

        Raises ValueError for an empty name and, while a timer fires, for an instant that is not later.
        """
        self._owned.register(_named(name), at)

    def delete(self, name: str) -> None:
        """Delete the timer *name*."""
        self._owned.delete(_named(name))

    def times(self) -> Mapping[str, int]:
        """Return the instant of each timer."""
        return {name: at for name, at in self._owned.times().items() if name != STATES}


class ProcessorStates:
    """All states of a processor for the current key, and its timers with their owners."""

    def __init__(self, handle: StatefulProcessorHandle, times: KeyTimes, time: TtlTimeCharacteristic) -> None:
        self.handle, self.owned = handle, OwnedTimers(handle)
        self._times, self._time = times, time
        self._by_timer: list[_State] = []
        self._by_touch: list[_State] = []

    def begin(self) -> None:
        """Start to handle a key: remove expired entries of states that no timer covers.

        Timers run in only one time domain.
        """
        self.owned.begin()
        for state in self._by_touch:
            state.next_expiry()

    def fired(self, at: int) -> Iterator[str]:
        """Yield the names of the timers that fire at *at*, after removing expired entries."""
        for owner in self.owned.fired(at):
            if owner == STATES:
                self._remove_expired()
            else:
                yield owner

    def entries(self, name: str, policy: TtlPolicy) -> EntryTimes:
        """Return the entry times of the state *name*.

        Raises ValueError if the policy uses event time and the rows have none.
        """
        if policy.time is TtlTimeCharacteristic.EVENT_TIME and not self._times.has_event_time:
            raise ValueError(
                f"state '{name}' has a TTL in event time, and the rows have none: name their column, "
                "event_time='…', in transform_with_state()"
            )
        return EntryTimes(policy, self._times, self.owned, by_timer=policy.time is self._time)

    def add(self, state: _S, policy: TtlPolicy) -> _S:
        """Register *state* for the removal of expired entries and return it."""
        (self._by_timer if policy.time is self._time else self._by_touch).append(state)
        return state

    def _remove_expired(self) -> None:
        instants = [at for at in (state.next_expiry() for state in self._by_timer) if at is not None]
        if instants:
            self.owned.register_before(STATES, min(instants))


class States:
    """Opens the states of a processor. Each state has a policy of its own."""

    def __init__(self, kept: ProcessorStates) -> None:
        self._kept, self._handle = kept, kept.handle
        self.timers = Timers(kept.owned)

    def value(self, name: str, schema: StructType | str, policy: TtlPolicy) -> PolicyValueState:
        """Open the value state *name*.

        *schema* contains its columns, as a type or as a string such as `n BIGINT, city STRING`.
        """
        entries = self._kept.entries(name, policy)
        return self._kept.add(
            PolicyValueState(self._handle.getValueState(name, stored_type(schema)), entries), policy
        )

    def list(self, name: str, schema: StructType | str, policy: TtlPolicy) -> PolicyListState:
        """Open the list state *name*; *schema* contains the columns of an element."""
        entries = self._kept.entries(name, policy)
        return self._kept.add(
            PolicyListState(self._handle.getListState(name, stored_type(schema)), entries), policy
        )

    def map(
        self, name: str, key: StructType | str, schema: StructType | str, policy: TtlPolicy
    ) -> PolicyMapState:
        """Open the map state *name*; *key* contains the columns of its keys, *schema* those of its values."""
        entries = self._kept.entries(name, policy)
        return self._kept.add(
            PolicyMapState(self._handle.getMapState(name, key, stored_type(schema)), entries), policy
        )


def _named(name: str) -> str:
    if name == STATES:
        raise ValueError("a timer without a name: give it one")
    return name
