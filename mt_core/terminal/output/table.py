"""Rows printed for people, as a grid or as records.

A grid needs its column widths before its first line, but a result may be too long to be read first. The
widths are therefore computed from the first `MEASURED_ROWS` rows, and from the types of numeric columns if
more rows follow. Later values that are wider are folded, so no data is lost; with *cut*, the last column is
cut instead. Each chunk of rows is rendered as a complete grid and printed without its bottom line (and, after
the first, without its header). The chunks then form a single grid, and rows appear while others are read.
Columns that are folded too narrowly cannot be read. If not every column can have the width of its values or
`READABLE_WIDTH`, rows are therefore printed as records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import IO

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mt_core.base.plural import plural
from mt_core.base.rowset import Column
from mt_core.client.pages import ResultPage
from mt_core.errors import MtError
from mt_core.terminal.output.tableau import type_width
from mt_core.terminal.output.texts import NULL_TEXT, numeric, shown, texts_of

PIPE_WIDTH = 160
READABLE_WIDTH = 12
# The minimum width of a cut text.
CUT_WIDTH = 6
FRAME_WIDTH = 3
# The number of rows that determine the column widths of a longer result.
MEASURED_ROWS = 1_000

Texts = list[list[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """Rows of a result. `more` tells whether others may follow."""

    columns: Sequence[Column]
    texts: Texts
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The widths that a column needs: for its `values`, its `name`, and the longest `word` of its name."""

    values: int
    name: int
    word: int

    @property
    def most(self) -> int:
        return max(self.values, self.name)

    @property
    def least(self) -> int:
        """The width at which only the name is folded, between its words."""
        return max(self.values, self.word)


def print_table(pages: Iterable[ResultPage], out: IO[str], *, cut: bool = False) -> None:
    """Print a grid if every column can have its needed width or a readable one, or else records.

    With *cut*, text that does not fit in the last column is cut. The first rows are printed before the last
    ones arrive. Rows that have arrived are printed even after an error or an interrupt.
    """
    console = _console(out)
    with closing(_chunks(pages)) as chunks:
        first = next(chunks)
        columns, texts = first.columns, first.texts
        if not first.more and len(columns) == 1 and len(texts) == 1 and "\n" in shown(texts[0][0]):
            # A single multi-line value is a definition or a plan, which users copy from the screen.
            console.print(escape(shown(texts[0][0])), soft_wrap=True)
            return
        needs, all_texts = _needs(first), (chunk.texts for chunk in chain((first,), chunks))
        if _is_grid(needs, console.width):
            _print_grid(console, columns, all_texts, _fitted(needs, console.width, cut=cut), cut=cut)
        else:
            _print_records(console, columns, all_texts)


def lines_of(pages: Sequence[ResultPage], screen: int) -> int:
    """Return the minimum number of lines that `print_table` needs for *pages*, a complete result.

    The lines have *screen* columns.
    """
    columns, texts = pages[0].columns, [row for page in pages for row in texts_of(page)]
    needs = _needs(_Chunk(columns=columns, texts=texts, more=False))
    return len(texts) * (1 if _is_grid(needs, screen) else len(columns) + 1)


def _is_grid(needs: Sequence[_Need], screen: int) -> bool:
    return sum(min(need.least, READABLE_WIDTH) + FRAME_WIDTH for need in needs) <= screen


def print_records(pages: Iterable[ResultPage], out: IO[str]) -> None:
    """Print each row as lines of column names and values."""
    iterator = iter(pages)
    first = next(iterator)
    ops = () if first.kinds is None else (Column(name="op"),)
    texts = (_with_kinds(page) for page in chain((first,), iterator))
    _print_records(_console(out), (*ops, *first.columns), texts)


def _with_kinds(page: ResultPage) -> Texts:
    if page.kinds is None:
        return texts_of(page)
    return [[kind.value, *row] for kind, row in zip(page.kinds, texts_of(page), strict=True)]


def _console(out: IO[str]) -> Console:
    return Console(file=out, highlight=False, width=None if out.isatty() else PIPE_WIDTH)


def _chunks(pages: Iterable[ResultPage]) -> Generator[_Chunk, None, None]:
    """Yield the rows of *pages*. The first chunk has all pages up to `MEASURED_ROWS` rows.

    An error or interrupt while the first chunk is read is raised after that chunk.
    """
    iterator, texts = iter(pages), list[list[str | None]]()
    page = next(iterator)
    columns, error = page.columns, None
    try:
        texts += texts_of(page)
        while len(texts) < MEASURED_ROWS and not page.is_last:
            page = next(iterator)
            texts += texts_of(page)
    except StopIteration:
        pass
    except (MtError, KeyboardInterrupt) as caught:
        error = caught
    yield _Chunk(columns=columns, texts=texts, more=error is None and not page.is_last)
    if error is not None:
        raise error
    for page in iterator:
        if page.rows:
            yield _Chunk(columns=columns, texts=texts_of(page), more=True)


def _needs(chunk: _Chunk) -> list[_Need]:
    """Return the widths that the columns of *chunk* need.

    If more rows follow, numeric columns have the width of their type.
    """
    values = [
        max((_text_width(row[number]) for row in chunk.texts), default=1)
        for number in range(len(chunk.columns))
    ]
    if chunk.more:
        values = [
            max(width, type_width(column.type)) if right else width
            for width, column, right in zip(values, chunk.columns, numeric(chunk.columns), strict=True)
        ]
    return [
        _Need(
            values=width, name=cell_len(column.name), word=max(map(cell_len, column.name.split()), default=1)
        )
        for width, column in zip(values, chunk.columns, strict=True)
    ]


def _text_width(text: str | None) -> int:
    return max(map(cell_len, shown(text).split("\n")))


def _fitted(needs: Sequence[_Need], screen: int, *, cut: bool) -> list[int]:
    """Return column widths for *needs* that fit the screen.

    To save space, names are first folded between words. Then, with *cut*, the last column is cut. Finally,
    the widest columns are folded.
    """
    room = screen - FRAME_WIDTH * len(needs) - 1
    fitted = [min(need.most, room) for need in needs]
    least = [need.least for need in needs]
    if cut:
        least[-1] = min(least[-1], CUT_WIDTH)
    for number, width in enumerate(least):
        fitted[number] -= max(0, min(sum(fitted) - room, fitted[number] - width))
    while sum(fitted) > room and max(fitted) > 1:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _print_grid(
    console: Console, columns: Sequence[Column], chunks: Iterable[Texts], widths: Sequence[int], *, cut: bool
) -> None:
    """Print *chunks* as one grid with its row count, even after an error or interrupt between two chunks."""
    count, bottom = 0, ""
    try:
        for texts in chunks:
            with console.capture() as captured:
                console.print(_grid(columns, texts, widths, cut=cut))
            lines = captured.get().splitlines(keepends=True)
            # Each chunk is printed without its bottom line, and only the first one with a header.
            console.file.writelines(lines[_header_end(lines) if bottom else 0 : -1])
            console.file.flush()
            count, bottom = count + len(texts), lines[-1]
    finally:
        console.file.write(bottom)
        _print_count(console, count)


def _header_end(lines: Sequence[str]) -> int:
    return next(number for number, line in enumerate(lines) if "┡" in line) + 1


def _print_count(console: Console, count: int) -> None:
    console.print(f"{count} {plural(count, 'row')}", style="dim")


def _grid(columns: Sequence[Column], texts: Texts, widths: Sequence[int], *, cut: bool) -> Table:
    table = Table(header_style="bold")
    for column, right, width in zip(columns, numeric(columns), widths, strict=True):
        table.add_column(
            escape(column.name), justify="right" if right else "left", overflow="fold", width=width
        )
    for row in texts:
        table.add_row(*map(_cell, row))
    if cut:
        table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
    return table


def _print_records(console: Console, columns: Sequence[Column], chunks: Iterable[Texts]) -> None:
    """Print each row as lines of name and value, and the row count, even after an error or interrupt."""
    width, count = max(cell_len(column.name) for column in columns), 0
    names = [escape(column.name) + " " * (width - cell_len(column.name)) for column in columns]
    try:
        for texts in chunks:
            for row in texts:
                count += 1
                console.rule(f"row {count}", align="left", style="dim")
                for name, text in zip(names, row, strict=True):
                    console.print(f"[bold]{name}[/bold]  {_cell(text)}", soft_wrap=True)
            console.file.flush()
    finally:
        _print_count(console, count)


def _cell(text: str | None) -> str:
    return f"[dim]{NULL_TEXT}[/dim]" if text is None else escape(text)
