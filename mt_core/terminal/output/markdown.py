"""Rows as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO

from mt_core.client.pages import ResultPage
from mt_core.terminal.output.lines import OP
from mt_core.terminal.output.texts import numeric, shown, texts_of

_ESCAPES = str.maketrans({"|": r"\|", "\\": r"\\", "\n": "<br>", "\r": "", "<": "&lt;", "&": "&amp;"})


def print_markdown(pages: Iterable[ResultPage], out: IO[str]) -> None:
    """Print *pages* as one table. For a changelog, the first column `op` contains the kind of each change."""
    for number, page in enumerate(pages):
        if number == 0:
            ops = [] if page.kinds is None else [OP]
            rules = ["---:" if right else "---" for right in numeric(page.columns)]
            out.write(_line([*ops, *(column.name for column in page.columns)]))
            out.write("| " + " | ".join([*("---" for _ in ops), *rules]) + " |\n")
        for index, row in enumerate(texts_of(page)):
            kinds = [] if page.kinds is None else [page.kinds[index].value]
            out.write(_line([*kinds, *map(shown, row)]))
        out.flush()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.translate(_ESCAPES) for cell in cells) + " |\n"
