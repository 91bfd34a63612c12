"""The display of results: what the properties of a session ask of the client itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from mt_core.errors import ConfigError
from mt_core.options import suggestion

_CLIENT = "sql-client."
RESULT_MODE = "sql-client.execution.result-mode"
MOST_ROWS = "sql-client.execution.max-table-result.rows"
VERBOSE = "sql-client.verbose"
TIME_COST = "sql-client.display.print-time-cost"
COLUMN_WIDTH = "table.display.max-column-width"
OLD_COLUMN_WIDTH = "sql-client.display.max-column-width"
RUNTIME_MODE = "execution.runtime-mode"
# What the client understands beside the keys that it reads: they are for an editor with colours.
_OF_THE_EDITOR = {"sql-client.display.color-schema", "sql-client.display.show-line-numbers"}
KEYS = {RESULT_MODE, MOST_ROWS, VERBOSE, TIME_COST, OLD_COLUMN_WIDTH, *_OF_THE_EDITOR}
LIKENESS = 0.6
_Value = TypeVar("_Value")


class ResultMode(StrEnum):
    """How rows are shown to a person: as they stand, each change, or each change as a text that ends."""

    TABLE = "table"
    CHANGELOG = "changelog"
    TABLEAU = "tableau"


@dataclass(frozen=True, kw_only=True)
class Display:
    """What the client does with a result; `most_rows` is how many rows of a table are shown."""

    mode: ResultMode = ResultMode.TABLE
    most_rows: int = 1_000_000
    verbose: bool = False
    time_cost: bool = True
    column_width: int = 30
    streaming: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Display:
        """Return what the properties of a session ask for; raises ConfigError naming the property that cannot be used."""
        width = COLUMN_WIDTH if COLUMN_WIDTH in properties else OLD_COLUMN_WIDTH
        return cls(
            mode=_read(properties, RESULT_MODE, cls.mode, _mode, "table, changelog or tableau"),
            most_rows=_read(properties, MOST_ROWS, cls.most_rows, _count, "a whole number above 0"),
            verbose=_read(properties, VERBOSE, cls.verbose, _truth, "true or false"),
            time_cost=_read(properties, TIME_COST, cls.time_cost, _truth, "true or false"),
            column_width=_read(properties, width, cls.column_width, _count, "a whole number above 0"),
            streaming=properties.get(RUNTIME_MODE, "batch").lower() == "streaming",
        )


def check_keys(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for a key of the client that there is not, naming the nearest one."""
    for key in properties:
        if key.startswith(_CLIENT) and key not in KEYS:
            near = suggestion(key, KEYS, likeness=LIKENESS) or f"there are {', '.join(sorted(KEYS))}."
            raise ConfigError(f"There is no property {key}; {near}", key=key)


def _read(
    properties: Mapping[str, str], key: str, default: _Value, read: Callable[[str], _Value | None], expected: str
) -> _Value:
    if key not in properties:
        return default
    value = read(properties[key].strip().lower())
    if value is None:
        raise ConfigError(f"{key}: '{properties[key]}' cannot be used; expected {expected}.", key=key)
    return value


def _mode(text: str) -> ResultMode | None:
    return ResultMode(text) if text in set(ResultMode) else None


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)
