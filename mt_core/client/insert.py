"""INSERTs of many rows in as few statements as possible, because each statement is a commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from mt_core.base.plural import plural
from mt_core.base.tokens import significant, skip_brackets
from mt_core.client.literals import ParameterCount, find_markers

ROWS_AT_ONCE = 500


def insert_batches(statement: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Return the statements and parameters that together run *statement* for each of *rows*, in order.

    An INSERT … VALUES (…) is extended to `ROWS_AT_ONCE` rows per statement.

    Raises ParameterCount and SqlSyntaxError.
    """
    values = _values_of(statement)
    if values is None:
        return ((statement, row) for row in rows)
    start, end, markers = values
    for number, row in enumerate(rows):
        if len(row) != markers:
            raise ParameterCount(
                f"The statement has {markers} {plural(markers, 'marker')} (?), "
                f"and row {number} has {len(row)} {plural(len(row), 'value')}."
            )
    return (
        (
            f"{statement[:end]}{f', {statement[start:end]}' * (len(batch) - 1)}{statement[end:]}",
            list(chain.from_iterable(batch)),
        )
        for batch in (rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE))
    )


def _values_of(statement: str) -> tuple[int, int, int] | None:
    """Return where the row in INSERT … VALUES (…) starts and ends, and its number of `?` markers.

    Return None for any other statement. Nothing may follow the row, and no `?` may precede it.
    """
    tokens = list(significant(statement))
    if not tokens or tokens[0].keyword != "INSERT":
        return None
    opening = (
        next((number for number, token in enumerate(tokens) if token.keyword == "VALUES"), len(tokens)) + 1
    )
    before, row = tokens[:opening], tokens[opening:]
    if not row or row[0].text != "(" or row[-1].text != ")" or find_markers(before):
        return None
    start, end = row[0].start, row[-1].end
    return (start, end, len(find_markers(row))) if skip_brackets(statement, start) == end else None
