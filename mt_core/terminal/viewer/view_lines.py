"""Lines of a view: rows cut to column widths, and a single row folded to the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len, chop_cells, set_cell_size

from mt_core.base.rowset import Column
from mt_core.terminal.output.texts import Row, numeric, shown

CUT = "..."
BETWEEN = "  "
MORE_BEFORE, MORE_AFTER = "← ", " →"
# Control characters on which a terminal would act: line ends, tabs, escapes.
_CONTROLS = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))} | {
    9: " ",
    10: "\\n",
    13: "\\r",
}

Line = list[tuple[str, str]]


def fitted_widths(
    columns: Sequence[Column], rows: Sequence[Row], least: Sequence[int], room: tuple[int, int]
) -> list[int]:
    """Return the column widths, none less than in *least*, so that columns do not move during scrolling.

    *room* is the width of the screen, and the maximum width of a column if not all columns fit.
    """
    screen, most = room
    widths = [
        max(width, cell_len(_plain(column.name)), *(cell_len(_plain(shown(row[number]))) for row in rows), 1)
        for number, (column, width) in enumerate(zip(columns, least or [1] * len(columns), strict=True))
    ]
    if sum(widths) + len(BETWEEN) * (len(widths) - 1) <= screen:
        return widths
    return [
        max(min(width, most, screen), min(cell_len(column.name), most))
        for width, column in zip(widths, columns, strict=True)
    ]


def grid_line(
    columns: Sequence[Column], row: Sequence[str | None], widths: Sequence[int], left: int, style: str
) -> Line:
    """Return the line of *row*, from column *left* on."""
    cells = [
        _cell(shown(text), width, right)
        for text, width, right in zip(row, widths, numeric(columns), strict=True)
    ]
    return [(style, BETWEEN.join(cells[left:]))]


def rule(widths: Sequence[int], left: int) -> Line:
    """Return the line below the column names."""
    return [("class:view-rule", BETWEEN.join("─" * width for width in widths[left:]))]


def whole_columns(widths: Sequence[int], left: int, screen: int) -> int:
    """Return how many columns fit completely in *screen*, starting at *left*."""
    ends = accumulate(len(BETWEEN) + width for width in widths[left:])
    return sum(end - len(BETWEEN) <= screen for end in ends)


def framed(lines: Sequence[Line], screen: int, *, before: bool, after: bool) -> list[Line]:
    """Return *lines* cut to *screen*. The first line has arrows if columns precede or follow."""
    margin = len(MORE_BEFORE) if before else 0
    cut = []
    for number, [(style, text)] in enumerate(lines):
        sign = (MORE_BEFORE if number == 0 else " " * margin)[:margin]
        end = MORE_AFTER if after and number == 0 else ""
        cut.append([(style, set_cell_size(sign + text, screen - len(end)) + end)])
    return cut


def _cell(text: str, width: int, right: bool) -> str:
    line = _plain(text)
    missing = width - cell_len(line)
    if missing >= 0:
        return " " * missing + line if right else line + " " * missing
    return set_cell_size(line, max(0, width - len(CUT))) + CUT[:width]


def _plain(text: str) -> str:
    return text.translate(_CONTROLS)


@dataclass(kw_only=True)
class RowLines:
    """All values of one row, folded to the screen. `top` is the first visible line."""

    columns: Sequence[Column]
    row: Row
    top: int = 0

    def move(self, lines: int) -> None:
        """Scroll by *lines*. The method `lines` later limits the position."""
        self.top += lines

    def lines(self, width: int, height: int) -> list[Line]:
        """Return up to *height* lines: each column name with its folded value next to it."""
        longest = max(cell_len(column.name) for column in self.columns)
        indent = min(longest, width // 2) + len(BETWEEN)
        every: list[Line] = []
        for column, text in zip(self.columns, self.row, strict=True):
            name = set_cell_size(_plain(column.name), indent)
            for part in _folded(shown(text), max(1, width - indent)):
                every.append([("class:view-names", name), ("", part)])
                name = " " * indent
        self.top = max(0, min(self.top, len(every) - height))
        return every[self.top : self.top + height]


def _folded(text: str, width: int) -> list[str]:
    parts = [part for line in text.split("\n") for part in chop_cells(_plain(line), width) or [""]]
    return parts or [""]
