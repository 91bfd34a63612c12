"""Results as a page shows them: columns with their types, pages of rows as text, and values to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from mt_core.base.plain_text import plain_rows
from mt_core.base.rowset import Column
from mt_core.sessions.ports import ResultRows
from mt_core.sql.flink.types import type_text

PAGE_ROWS = 100
# A longer value is cut in its cell. The whole value opens under it, up to the second number.
SHORT, LONGEST = 160, 20_000
MOST_DRAWN, MOST_SERIES = 5_000, 6
_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
_TIMES = {"DATE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A column of a result: its name, its type in SQL and whether its values are numbers."""

    name: str
    type: str
    is_number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value: `text` is None for NULL.

    `whole` is the value, or its first `LONGEST` characters, if `text` is cut; `missing` counts the characters
    after them.
    """

    text: str | None
    is_number: bool = False
    whole: str | None = None
    missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row; `sign` is its kind in a changelog, such as +I, and "" in any other result."""

    number: int
    sign: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """A page of a result, and how many rows it has so far; `running` means that more may follow."""

    headings: Sequence[Heading]
    rows: Sequence[Row]
    total: int
    running: bool
    changelog: bool
    drawable: bool

    @property
    def text(self) -> str | None:
        """The only value of the result if it is text of several lines, such as a plan; else None."""
        if self.total != 1 or len(self.rows) != 1 or len(self.headings) != 1:
            return None
        cell = self.rows[0].cells[0]
        value = cell.whole or cell.text or ""
        return value if "\n" in value and not cell.missing else None

    @property
    def is_job(self) -> bool:
        """Whether the result is the id of a job, which may go on."""
        return [heading.name for heading in self.headings] == ["job id"]

    @property
    def first(self) -> int:
        return self.rows[0].number if self.rows else 0

    @property
    def last(self) -> int:
        return self.rows[-1].number if self.rows else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of a column by row; None where a value is NULL or cannot be drawn."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Values to draw over those of `x`, which are in ascending order; instants are seconds since 1970."""

    x: Series
    is_time: bool
    series: Sequence[Series]
    rows: int


def page_of(rows: ResultRows, start: int) -> ResultPage:
    """Return up to `PAGE_ROWS` rows from row *start*, as far as they are there. Never waits."""
    columns = rows.columns
    headings = [
        Heading(name=each.name, type=type_text(each.type.to_json()), is_number=_is_number(each))
        for each in columns
    ]
    count = rows.available(start, PAGE_ROWS, 0)
    values = plain_rows(columns, rows.page(start, count)) if count else []
    kinds = [kind.value for kind in rows.kinds(start, count)] if rows.changelog and count else [""] * count
    shown = [
        Row(
            number=start + number,
            sign=sign,
            cells=[_cell(value, heading) for value, heading in zip(row, headings, strict=True)],
        )
        for number, (row, sign) in enumerate(zip(values, kinds, strict=True), 1)
    ]
    return ResultPage(
        headings=headings,
        rows=shown,
        total=count_of(rows),
        running=rows.running,
        changelog=rows.changelog,
        drawable=not rows.changelog and axes(columns) is not None,
    )


def count_of(rows: ResultRows) -> int:
    """Return the number of rows that can be read now. Never waits."""

    def has(position: int) -> bool:
        return rows.available(position, 1, 0) > 0

    if not has(0):
        return 0
    end = 1
    while has(end):
        end *= 2
    begin = end // 2
    # Row `begin` exists and row `end` does not.
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if has(middle) else (begin, middle)
    return end


def axes(columns: Sequence[Column]) -> tuple[int, Sequence[int]] | None:
    """Return the positions of the column to draw over and of those to draw, None if there are none.

    Values are drawn over the first instant, or else over the first number.
    """
    times = [at for at, column in enumerate(columns) if column.type.root in _TIMES]
    numbers = [at for at, column in enumerate(columns) if _is_number(column)]
    x = next(iter(times or numbers), None)
    drawn = [at for at in numbers if at != x][:MOST_SERIES]
    return (x, drawn) if x is not None and drawn else None


def drawing_of(rows: ResultRows) -> Drawing | None:
    """Return the values of up to `MOST_DRAWN` rows, None if no column can be drawn. Never waits."""
    found = axes(rows.columns)
    if found is None or rows.changelog:
        return None
    x, drawn = found
    is_time = rows.columns[x].type.root in _TIMES
    read = _instant if is_time else _number
    count = rows.available(0, MOST_DRAWN, 0)
    values = rows.page(0, count) if count else []
    placed = sorted(
        ((at, row) for row in values if (at := read(row[x])) is not None), key=lambda each: each[0]
    )
    return Drawing(
        x=Series(name=rows.columns[x].name, values=[at for at, _ in placed]),
        is_time=is_time,
        series=[
            Series(name=rows.columns[at].name, values=[_number(row[at]) for _, row in placed]) for at in drawn
        ],
        rows=count,
    )


def _is_number(column: Column) -> bool:
    return column.type.root in _NUMBERS


def _cell(value: str | None, heading: Heading) -> Cell:
    if value is None or len(value) <= SHORT:
        return Cell(text=value, is_number=heading.is_number)
    missing = max(0, len(value) - LONGEST)
    return Cell(text=value[:SHORT], is_number=heading.is_number, whole=value[:LONGEST], missing=missing)


def _read(value: Any, read: Callable[[Any], float]) -> float | None:
    try:
        number = read(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _number(value: Any) -> float | None:
    """Return a number, which is text if JSON cannot write it; None for NULL, NaN and infinity."""
    return _read(value, float)


def _instant(value: Any) -> float | None:
    """Return an instant in seconds since 1970, that of its text in UTC; None for NULL."""

    def seconds(text: Any) -> float:
        instant = datetime.fromisoformat(str(text))
        return (instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant).timestamp()

    return _read(value, seconds)
