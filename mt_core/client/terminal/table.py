"""Rows printed for people (a table) and for programs (CSV, JSON lines)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import IO, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mt_core.client.pages import ResultPage
from mt_core.client.terminal.standing_rows import StandingRows
from mt_core.client.terminal.tableau import MOST_WIDTH, OP, print_tableau
from mt_core.client.values import FLOATS, converter
from mt_core.rowset import Column

NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
NULL_TEXT = "NULL"
PIPE_WIDTH = 160
READABLE_WIDTH = 12
FRAME_WIDTH = 3


class Format(StrEnum):
    """How rows are printed. JSON is one object per row and line; a tableau has the rows as they come."""

    TABLE = "table"
    TABLEAU = "tableau"
    CSV = "csv"
    JSON = "json"


def print_result(pages: Iterable[ResultPage], form: Format, out: IO[str], column_width: int = MOST_WIDTH) -> None:
    """Print a result to *out*; a statement that has nothing to show prints OK in a table or tableau, and nothing otherwise.

    *column_width* is the most that a tableau has for a column. A table has the rows of a changelog as they stand at its end, or
    at the interrupt that ends it; any other form has all changes.
    """
    exact = map(_with_numbers, pages)
    match form:
        case Format.TABLE:
            first = next(exact)
            if first.kinds is None:
                _print_table([first, *exact], out)
            else:
                _print_standing(first, exact, out)
        case Format.TABLEAU:
            first = next(exact)
            if first.is_query:
                print_tableau(chain((first,), exact), _shown, out, column_width)
            else:
                _print_table([first, *exact], out)
        case Format.CSV:
            _print_csv(exact, out)
        case Format.JSON:
            _print_json(exact, out)


def _with_numbers(page: ResultPage) -> ResultPage:
    """Return *page* with decimals that have the scale of their column: JSON has them without the zeros at the end."""
    converts = [converter(column.type, FLOATS) for column in page.columns]
    rows = [
        [None if value is None else convert(value) for convert, value in zip(converts, row, strict=True)]
        for row in page.rows
    ]
    return replace(page, rows=rows)


def _print_table(pages: list[ResultPage], out: IO[str]) -> None:
    console = Console(file=out, highlight=False, width=None if out.isatty() else PIPE_WIDTH)
    columns, rows = pages[0].columns, [row for page in pages for row in page.rows]
    if not pages[0].has_content:
        console.print("OK")
        return
    if len(columns) == 1 and len(rows) == 1 and "\n" in str(rows[0][0]):
        # A definition or a plan: copied from the screen more often than read in a grid.
        console.print(escape(str(rows[0][0])), soft_wrap=True)
        return
    # A grid if every column can have what it needs, or a width at which folded text can still be read.
    needed = [
        max(len(column.name), *(len(_text(row[number])) for row in rows), 1) for number, column in enumerate(columns)
    ]
    if sum(min(need, READABLE_WIDTH) + FRAME_WIDTH for need in needed) <= console.width:
        console.print(_grid(columns, rows))
    else:
        _print_records(console, columns, rows)
    console.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}", style="dim")


def _print_standing(first: ResultPage, others: Iterable[ResultPage], out: IO[str]) -> None:
    """Print the rows of a changelog as they stand at its end, also if that is an error or an interrupt."""
    standing = StandingRows()
    try:
        for page in chain((first,), others):
            for kind, row in zip(page.kinds or (), page.rows, strict=True):
                standing.apply(kind, row)
    finally:
        _print_table([replace(first, rows=[list(row) for row in standing.all()], kinds=None)], out)


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Table:
    table = Table(header_style="bold")
    for column in columns:
        right = column.type.root in NUMBERS
        table.add_column(escape(column.name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _print_records(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
    """Print each row as lines of name and value: a grid of so many columns could not be read."""
    width = max(len(column.name) for column in columns)
    for number, row in enumerate(rows, start=1):
        console.rule(f"row {number}", align="left", style="dim")
        for column, value in zip(columns, row, strict=True):
            console.print(f"[bold]{escape(column.name):<{width}}[/bold]  {_cell(value)}", soft_wrap=True)


def _shown(value: Any) -> str:
    return NULL_TEXT if value is None else _text(value)


def _cell(value: Any) -> str:
    return f"[dim]{NULL_TEXT}[/dim]" if value is None else escape(_text(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Return *value* as JSON, with all digits of its decimals."""
    match value:
        case Decimal():
            return format(value, "f")
        case dict():
            return "{" + ", ".join(f"{_json(key)}: {_json(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _print_csv(pages: Iterable[ResultPage], out: IO[str]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    for number, page in enumerate(pages):
        if page.has_content:
            if number == 0:
                writer.writerow([*(() if page.kinds is None else (OP,)), *(column.name for column in page.columns)])
            texts = [["" if value is None else _text(value) for value in row] for row in page.rows]
            if page.kinds is not None:
                texts = [[kind.value, *row] for kind, row in zip(page.kinds, texts, strict=True)]
            writer.writerows(texts)
            # The next page of a result without end may take long.
            out.flush()


def _print_json(pages: Iterable[ResultPage], out: IO[str]) -> None:
    for page in pages:
        names = [column.name for column in page.columns]
        objects: list[Any] = [dict(zip(names, row, strict=True)) for row in page.rows if page.has_content]
        if page.kinds is not None:
            objects = [{OP: kind.value, "row": each} for kind, each in zip(page.kinds, objects, strict=True)]
        out.writelines(_json(each) + "\n" for each in objects)
        out.flush()
