"""INSERTs of many rows, as few statements as can be: each of them costs a commit of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from mt_core.client.literals import ParameterCount
from mt_core.tokens import Token, TokenKind, tokenize

ROWS_AT_ONCE = 500


def insert_batches(statement: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Return the statements, with their parameters, that do what *statement* does for each of *rows*, in order.

    Raises ParameterCount, SqlSyntaxError.
    """
    values = _values_of(statement)
    if values is None:
        return ((statement, row) for row in rows)
    start, end, markers = values
    for number, row in enumerate(rows):
        if len(row) != markers:
            raise ParameterCount(f"The statement has {markers} markers (?), and row {number} has {len(row)} values.")
    return (
        (
            f"{statement[:end]}{f', {statement[start:end]}' * (len(batch) - 1)}{statement[end:]}",
            list(chain.from_iterable(batch)),
        )
        for batch in (rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE))
    )


def _values_of(statement: str) -> tuple[int, int, int] | None:
    """Return where the row of an INSERT … VALUES (…) begins and ends, and its number of `?`; None for anything else.

    There must be nothing behind the row, and no `?` before it.
    """
    tokens = [token for token in tokenize(statement) if token.kind is not TokenKind.COMMENT]
    if not tokens or tokens[0].keyword != "INSERT":
        return None
    opening = next((number for number, token in enumerate(tokens) if token.keyword == "VALUES"), len(tokens)) + 1
    before, row = tokens[:opening], tokens[opening:]
    if not row or _depth_is_zero_at(row) != len(row) - 1 or _markers(before):
        return None
    return row[0].start, row[-1].end, _markers(row)


def _depth_is_zero_at(tokens: Sequence[Token]) -> int | None:
    """Return the number of the token that closes the parenthesis which the first one opens; None if there is none."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth <= 0:
            return number if number else None
    return None


def _markers(tokens: Sequence[Token]) -> int:
    return sum(token.kind is TokenKind.SYMBOL and token.text == "?" for token in tokens)
