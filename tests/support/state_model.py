"""Plain models of states with TTL policies, which compute the contents at an instant arithmetically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mt_core.state import TtlPolicy, TtlTimeCharacteristic, TtlUpdateEvent

_READS = {TtlUpdateEvent.ON_READ, TtlUpdateEvent.ON_READ_WRITE}
_WRITES = {TtlUpdateEvent.ON_WRITE, TtlUpdateEvent.ON_READ_WRITE}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The times of a batch in milliseconds: batch time, watermark, and event time of the row."""

    processing: int
    watermark: int
    row: int


@dataclass
class StateModel:
    """The states of one key: the value and the last modification of each entry."""

    policies: Mapping[str, TtlPolicy]
    _entries: dict[str, list[list[Any]]] = field(default_factory=lambda: {"value": [], "list": [], "map": []})

    def run(self, commands: Sequence[tuple[Any, ...]], moment: Moment) -> list[Any]:
        seen = [self._run(moment, *command) for command in commands]
        return [each for each in seen if each is not None]

    def _run(self, moment: Moment, state: str, action: str, *given: Any) -> Any:
        found, at = self._live(state, moment), self._time(state, moment.row, moment.processing)
        if action in {"get", "items"}:
            read = [entry for entry in found if not given or entry[0] == given[0]]
            for entry in read:
                entry[2] = max(entry[2], at) if self.policies[state].update in _READS else entry[2]
            return sorted([name, n] for name, n, _ in read) if action == "items" else [n for _, n, _ in read]
        name, value = given if len(given) == 2 else (None, given[0])
        same = [entry for entry in found if entry[0] == name] if action == "update" else []
        if not same:
            found.append([name, value, at])
        for entry in same:
            entry[1:] = [value, max(entry[2], at) if self.policies[state].update in _WRITES else entry[2]]
        return None

    def _live(self, state: str, moment: Moment) -> list[list[Any]]:
        ttl = self.policies[state].ttl // timedelta(milliseconds=1)
        now = self._time(state, moment.watermark, moment.processing)
        self._entries[state] = [entry for entry in self._entries[state] if entry[2] + ttl > now]
        return self._entries[state]

    def _time(self, state: str, event: int, processing: int) -> int:
        return event if self.policies[state].time is TtlTimeCharacteristic.EVENT_TIME else processing
