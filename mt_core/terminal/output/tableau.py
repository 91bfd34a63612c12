"""Flink's tableau format: rows as they arrive, in columns whose widths follow from their types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import IO

from mt_core.base.plural import plural
from mt_core.base.rowset import STRING_LENGTH, Column, LogicalType
from mt_core.client.pages import ResultPage
from mt_core.terminal.output.lines import OP
from mt_core.terminal.output.texts import shown, texts_of

LEAST_WIDTH, MOST_WIDTH = 4, 30
CUT = "..."
_WIDTHS = {
    "BOOLEAN": 5,
    "TINYINT": 4,
    "SMALLINT": 6,
    "INTEGER": 11,
    "BIGINT": 20,
    "DATE": 10,
    "TIMESTAMP_WITHOUT_TIME_ZONE": 26,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": 27,
}


def print_tableau(pages: Iterable[ResultPage], out: IO[str], most_width: int) -> None:
    """Print the rows of *pages* in columns of up to *most_width* characters.

    For a changelog, the first column `op` contains the kind of each change. The row count is printed at the
    end, even after a KeyboardInterrupt.
    """
    count, rule = 0, ""
    try:
        for page in pages:
            widths = [_width(column, most_width) for column in page.columns]
            if not rule:
                rule = _rule(widths, page)
                names = [
                    _cell(column.name, width) for column, width in zip(page.columns, widths, strict=True)
                ]
                out.write(f"{rule}\n{_line(names, None if page.kinds is None else OP)}\n{rule}\n")
            ops = repeat(None) if page.kinds is None else (kind.value for kind in page.kinds)
            for row, op in zip(texts_of(page), ops, strict=False):
                cells = [_cell(shown(text), width) for text, width in zip(row, widths, strict=True)]
                out.write(_line(cells, op) + "\n")
            count += len(page.rows)
            # The next page of an unbounded result may take long.
            out.flush()
    finally:
        if rule:
            out.write(f"{rule}\n{count} {plural(count, 'row')}\n")


def _rule(widths: Sequence[int], page: ResultPage) -> str:
    op = [] if page.kinds is None else [len(OP)]
    return "+" + "+".join("-" * (width + 2) for width in [*op, *widths]) + "+"


def _line(cells: Sequence[str], op: str | None) -> str:
    return "| " + " | ".join([*([] if op is None else [op]), *cells]) + " |"


def _width(column: Column, most_width: int) -> int:
    return max(len(column.name), min(type_width(column.type), most_width), LEAST_WIDTH)


def type_width(kind: LogicalType) -> int:
    """Return the display width of the widest value of a type, as in Flink's client."""
    if kind.root == "DECIMAL":
        return int(kind.extras["precision"]) + 2
    return int(_WIDTHS.get(kind.root, kind.extras.get("length", STRING_LENGTH)))


def _cell(text: str, width: int) -> str:
    line = text.replace("\n", "\\n")
    return line.rjust(width) if len(line) <= width else line[: width - len(CUT)] + CUT
