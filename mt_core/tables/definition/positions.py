"""Positions of errors: the engine counts them from the query's first letter, users from their statement's."""

from __future__ import annotations

from mt_core.errors import QueryFailed
from mt_core.sql import statements as sql


def in_statement(error: QueryFailed, statement: sql.Statement) -> QueryFailed:
    """Return *error* with line and position counted from the beginning of *statement*."""
    match statement:
        case sql.CreateMaterializedTable() | sql.AlterQuery():
            first_line, first_column = statement.query_line, statement.query_column
        case _:
            return error
    if error.line is None or error.position is None:
        return error
    line = error.line + first_line - 1
    position = error.position + (first_column - 1 if error.line == 1 else 0)
    return error.reworded(error.message, line=line, position=position)
