"""The states of a processor, which it opens before the first key, and its timers."""

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
    """The timers that a processor has at the key at hand, by name, in the time of the processor."""

    def __init__(self, owned: OwnedTimers) -> None:
        self._owned = owned

    def register(self, name: str, at: int) -> None:
        """Let the timer *name* run at *at*, in milliseconds, and no more at the instant before.

        Raises ValueError for no name, and in a timer for an instant that is not after its own.
        """
        self._owned.register(_named(name), at)

    def delete(self, name: str) -> None:
        """Let there be no timer *name*."""
        self._owned.delete(_named(name))

    def times(self) -> Mapping[str, int]:
        """Return the instant of each name."""
        return {name: at for name, at in self._owned.times().items() if name != STATES}


class KeptStates:
    """All that a processor keeps of the key at hand: its states, and whose timers run when."""

    def __init__(self, handle: StatefulProcessorHandle, times: KeyTimes, time: TtlTimeCharacteristic) -> None:
        self.handle, self.owned = handle, OwnedTimers(handle)
        self._times, self._time = times, time
        self._by_timer: list[_State] = []
        self._by_touch: list[_State] = []

    def begin(self) -> None:
        """Begin with a key: what has expired in the time that no timer runs in is removed."""
        self.owned.begin()
        for state in self._by_touch:
            state.next_expiry()

    def fired(self, at: int) -> Iterator[str]:
        """Yield the names whose timer runs at *at*, once the entries that have expired are removed."""
        for owner in self.owned.fired(at):
            if owner == STATES:
                self._remove_expired()
            else:
                yield owner

    def entries(self, name: str, policy: TtlPolicy) -> EntryTimes:
        """Return when the entries of the state *name* expire; raises ValueError for event time
        that the rows do not have.
        """
        if policy.time is TtlTimeCharacteristic.EVENT_TIME and not self._times.has_event_time:
            raise ValueError(
                f"state '{name}' has a TTL in event time, and the rows have none: name their column, "
                "event_time='…', in transform_with_state()"
            )
        return EntryTimes(policy, self._times, self.owned, by_timer=policy.time is self._time)

    def add(self, state: _S, policy: TtlPolicy) -> _S:
        """Return *state*, whose expired entries are removed from now on."""
        (self._by_timer if policy.time is self._time else self._by_touch).append(state)
        return state

    def _remove_expired(self) -> None:
        instants = [at for at in (state.next_expiry() for state in self._by_timer) if at is not None]
        if instants:
            self.owned.register_before(STATES, min(instants))


class States:
    """What a processor opens its states with: any number of them, each with a policy of its own."""

    def __init__(self, kept: KeptStates) -> None:
        self._kept, self._handle = kept, kept.handle
        self.timers = Timers(kept.owned)

    def value(self, name: str, schema: StructType | str, policy: TtlPolicy) -> PolicyValueState:
        """Open the state *name* of one value; *schema* is that of its columns, also as text,
        `n BIGINT, city STRING`.
        """
        entries = self._kept.entries(name, policy)
        return self._kept.add(
            PolicyValueState(self._handle.getValueState(name, stored_type(schema)), entries), policy
        )

    def list(self, name: str, schema: StructType | str, policy: TtlPolicy) -> PolicyListState:
        """Open the state *name* of a list; *schema* is that of an element."""
        entries = self._kept.entries(name, policy)
        return self._kept.add(
            PolicyListState(self._handle.getListState(name, stored_type(schema)), entries), policy
        )

    def map(
        self, name: str, key: StructType | str, schema: StructType | str, policy: TtlPolicy
    ) -> PolicyMapState:
        """Open the state *name* of a map; *key* is the schema of its keys, *schema* that of its values."""
        entries = self._kept.entries(name, policy)
        return self._kept.add(
            PolicyMapState(self._handle.getMapState(name, key, stored_type(schema)), entries), policy
        )


def _named(name: str) -> str:
    if name == STATES:
        raise ValueError("a timer without a name: give it one")
    return name
