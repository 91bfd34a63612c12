"""How results are displayed, according to the client properties of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from mt_core.base.options import suggestion
from mt_core.errors import ConfigError

_CLIENT = "sql-client."
RESULT_MODE = "sql-client.execution.result-mode"
MOST_ROWS = "sql-client.execution.max-table-result.rows"
VERBOSE = "sql-client.verbose"
TIME_COST = "sql-client.display.print-time-cost"
COLUMN_WIDTH = "table.display.max-column-width"
OLD_COLUMN_WIDTH = "sql-client.display.max-column-width"
RUNTIME_MODE = "execution.runtime-mode"
COLOUR_SCHEME = "sql-client.display.color-schema"
LINE_NUMBERS = "sql-client.display.show-line-numbers"
KEYS = {RESULT_MODE, MOST_ROWS, VERBOSE, TIME_COST, OLD_COLUMN_WIDTH, COLOUR_SCHEME, LINE_NUMBERS}
LIKENESS = 0.6
_Value = TypeVar("_Value")
_Name = TypeVar("_Name", bound=StrEnum)


class ResultMode(StrEnum):
    """How rows are shown: the current rows, every change, or every change as plain text."""

    TABLE = "table"
    CHANGELOG = "changelog"
    TABLEAU = "tableau"


class ColourScheme(StrEnum):
    """The syntax colours of typed statements: the terminal's palette, or that of an editor theme."""

    DEFAULT = "default"
    DARK = "dark"
    LIGHT = "light"
    CHESTER = "chester"
    VS2010 = "vs2010"
    SOLARIZED = "solarized"
    OBSIDIAN = "obsidian"
    GESHI = "geshi"


@dataclass(frozen=True, kw_only=True)
class Display:
    """Display options of a result and of typed statements.

    `most_rows` is the maximum number of rows in a table that is shown.
    """

    mode: ResultMode = ResultMode.TABLE
    most_rows: int = 1_000_000
    verbose: bool = False
    time_cost: bool = True
    column_width: int = 30
    streaming: bool = False
    colours: ColourScheme = ColourScheme.DEFAULT
    line_numbers: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Display:
        """Return the display options in the properties of a session.

        Raises ConfigError naming an invalid property.
        """
        width = COLUMN_WIDTH if COLUMN_WIDTH in properties else OLD_COLUMN_WIDTH
        return cls(
            mode=_read(properties, RESULT_MODE, cls.mode, _one_of(ResultMode), _names(ResultMode)),
            most_rows=_read(properties, MOST_ROWS, cls.most_rows, _count, "a whole number above 0"),
            verbose=_read(properties, VERBOSE, cls.verbose, _truth, "true or false"),
            time_cost=_read(properties, TIME_COST, cls.time_cost, _truth, "true or false"),
            column_width=_read(properties, width, cls.column_width, _count, "a whole number above 0"),
            streaming=properties.get(RUNTIME_MODE, "batch").lower() == "streaming",
            colours=_read(
                properties, COLOUR_SCHEME, cls.colours, _one_of(ColourScheme), _names(ColourScheme)
            ),
            line_numbers=_read(properties, LINE_NUMBERS, cls.line_numbers, _truth, "true or false"),
        )


def check_keys(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown client property, suggesting the most similar one."""
    for key in properties:
        if key.startswith(_CLIENT) and key not in KEYS:
            near = suggestion(key, KEYS, likeness=LIKENESS) or f"there are {', '.join(sorted(KEYS))}."
            raise ConfigError(f"There is no property {key}; {near}", key=key)


def _read(
    properties: Mapping[str, str],
    key: str,
    default: _Value,
    read: Callable[[str], _Value | None],
    expected: str,
) -> _Value:
    if key not in properties:
        return default
    value = read(properties[key].strip().lower())
    if value is None:
        raise ConfigError(f"{key}: '{properties[key]}' cannot be used; expected {expected}.", key=key)
    return value


def _one_of(values: type[_Name]) -> Callable[[str], _Name | None]:
    return lambda text: values(text) if text in set(values) else None


def _names(values: type[StrEnum]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}"


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)
