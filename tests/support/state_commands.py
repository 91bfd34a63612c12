"""A processor of the public API that executes the state accesses in its rows and returns the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Row

from mt_core.state import KeyedProcessor, KeyTimes, States, TtlPolicy

OUTPUT = "k STRING, seen STRING"
STATES = ("value", "list", "map")
Command = tuple[Any, ...]
"""A state, what to do with it, and the arguments: ("value", "update", 7), ("map", "update", "a", 7)."""


class StateCommands(KeyedProcessor):
    """A state of each kind, with the policy of its name.

    The column `commands` of a row is a JSON list, whose commands are executed in order.
    """

    def __init__(self, policies: Mapping[str, TtlPolicy]) -> None:
        self._policies = policies

    def open(self, states: States) -> None:
        self._timers = states.timers
        self._value = states.value("value", "n INT", self._policies["value"])
        self._list = states.list("list", "n INT", self._policies["list"])
        self._map = states.map("map", "name STRING", "n INT", self._policies["map"])

    def rows(self, key: tuple[Any, ...], rows: Iterator[Row], times: KeyTimes) -> Iterator[Row]:
        for row in rows:
            seen = [self._run(*command) for command in json.loads(row["commands"])]
            yield Row(k=key[0], seen=json.dumps([each for each in seen if each is not None]))

    def timer(self, key: tuple[Any, ...], name: str, times: KeyTimes) -> Iterator[Row]:
        yield Row(k=key[0], seen=json.dumps([name, self._value.exists()]))

    def _run(self, state: str, action: str, *given: Any) -> Any:
        match state:
            case "value":
                return self._run_value(action, *given)
            case "list":
                return self._run_list(action, *given)
            case "map":
                return self._run_map(action, *given)
        return self._run_timer(action, *given)

    def _run_value(self, action: str, *given: Any) -> Any:
        if action == "get":
            return list(self._value.get() or ())
        return self._value.update((given[0],))

    def _run_list(self, action: str, *given: Any) -> Any:
        if action == "get":
            return [n for (n,) in self._list.get()]
        return self._list.append_value((given[0],))

    def _run_map(self, action: str, *given: Any) -> Any:
        if action == "items":
            return sorted([name, n] for (name,), (n,) in self._map.items().items())
        if action == "get":
            return list(self._map.get_value((given[0],)) or ())
        return self._map.update_value((given[0],), (given[1],))

    def _run_timer(self, action: str, *given: Any) -> Any:
        if action == "times":
            return dict(self._timers.times())
        return self._timers.register(*given) if action == "register" else self._timers.delete(*given)
