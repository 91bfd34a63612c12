"""A result, printed in one of the forms."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import IO

from mt_core.client.pages import ResultPage
from mt_core.client.terminal.form import Form
from mt_core.client.terminal.lines import print_delimited, print_json
from mt_core.client.terminal.markdown import print_markdown
from mt_core.client.terminal.table import print_records, print_standing, print_table
from mt_core.client.terminal.tableau import MOST_WIDTH, print_tableau


def print_result(pages: Iterable[ResultPage], form: Form, out: IO[str], column_width: int = MOST_WIDTH) -> None:
    """Print a result to *out*; a statement that has nothing to show prints OK in a form for people, and nothing otherwise.

    *column_width* is the most that a tableau has for a column. A table has the rows of a changelog as they stand at its end, or
    at the interrupt that ends it; any other form has all changes.
    """
    match form:
        case Form.CSV | Form.TSV:
            print_delimited(pages, out, tabs=form is Form.TSV)
        case Form.JSON | Form.JSONL:
            print_json(pages, out)
        case _:
            iterator = iter(pages)
            first = next(iterator)
            _print_for_people(first, chain((first,), iterator), form, out, column_width)


def _print_for_people(
    first: ResultPage, pages: Iterable[ResultPage], form: Form, out: IO[str], column_width: int
) -> None:
    match form:
        case _ if not first.has_content:
            out.write("OK\n")
        case Form.VERTICAL:
            print_records(pages, out)
        case Form.MARKDOWN:
            print_markdown(pages, out)
        case Form.TABLEAU if first.is_query:
            print_tableau(pages, out, column_width)
        case _ if first.kinds is not None:
            print_standing(pages, out)
        case _:
            print_table(pages, out)
