"""Printing of results in an output format."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import IO

from mt_core.client.pages import ResultPage
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.lines import print_delimited, print_json
from mt_core.terminal.output.markdown import print_markdown
from mt_core.terminal.output.tableau import MOST_WIDTH, print_tableau


def print_result(
    pages: Iterable[ResultPage],
    form: Form,
    out: IO[str],
    column_width: int = MOST_WIDTH,
    *,
    cut: bool = False,
) -> bool:
    """Print a result to *out*. Return False if people would see nothing of it.

    *column_width* is the maximum column width of a tableau. *cut* allows the last column of a grid to be cut.
    All formats print every change of a changelog, except a table, whose pages contain the standing rows.
    """
    match form:
        case Form.CSV | Form.TSV:
            print_delimited(pages, out, tabs=form is Form.TSV)
        case Form.JSON | Form.JSONL:
            print_json(pages, out)
        case _:
            iterator = iter(pages)
            first = next(iterator)
            if not first.has_content:
                return False
            _print_for_people(first, chain((first,), iterator), form, out, column_width, cut=cut)
    return True


def _print_for_people(
    first: ResultPage, pages: Iterable[ResultPage], form: Form, out: IO[str], column_width: int, *, cut: bool
) -> None:
    # Imported here because grids load half of rich, which would delay the prompt.
    from mt_core.terminal.output.table import print_records, print_table

    match form:
        case Form.VERTICAL:
            print_records(pages, out)
        case Form.MARKDOWN:
            print_markdown(pages, out)
        case Form.TABLEAU if first.is_query:
            print_tableau(pages, out, column_width)
        case _:
            print_table(pages, out, cut=cut)
