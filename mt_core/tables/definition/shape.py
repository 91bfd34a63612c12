"""The columns and types that a query must return so that its rows can be stored in a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mt_core.errors import MtError, QueryFailed
from mt_core.model.table import Column, TableIdentifier

# The error class of a query whose columns no longer match its table; retries do not help.
COLUMNS_CHANGED = "COLUMNS_CHANGED"
# Error classes of a query whose sources have other columns than when the table was defined.
_OF_SOURCES = (
    "UNRESOLVED_COLUMN",
    "FIELD_NOT_FOUND",
    "AMBIGUOUS_REFERENCE",
    "NUM_COLUMNS_MISMATCH",
    "DATATYPE_MISMATCH",
)
_MISSING = "TABLE_OR_VIEW_NOT_FOUND"
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WIDER = {("float", "double")} | {(each, "double") for each in ("tinyint", "smallint", "int")}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT = re.compile(r"(var)?char\(\d+\)")


def stored_order(
    table: TableIdentifier, produced: Sequence[Column], stored: Sequence[Column], types: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the query's column names in the order of the table's columns.

    Columns are matched by name. Each must have the type that the definition recorded (*types*), or a type
    whose values can all be stored exactly. Raises QueryFailed if the columns do not match.
    """
    by_name = {column.name.lower(): column for column in produced}
    stored_names = {column.name.lower() for column in stored}
    missing = [column.name for column in stored if column.name.lower() not in by_name]
    added = [column.name for column in produced if column.name.lower() not in stored_names]
    if missing:
        raise _changed(table, f"the query no longer returns {', '.join(missing)}")
    if added:
        raise _changed(table, f"the query also returns {', '.join(added)}, which the table does not have")
    if len(by_name) != len(produced):
        names = ", ".join(column.name for column in produced)
        raise _changed(table, f"the query returns two columns of one name ({names})")
    for column in stored:
        now = by_name[column.name.lower()]
        if now.type != types.get(column.name) and not is_exact(now.type, column.type):
            before = types.get(column.name, column.type)
            raise _changed(table, f"column {column.name} is {now.type.upper()} now and was {before.upper()}")
    return tuple(by_name[column.name.lower()].name for column in stored)


def is_exact(source: str, target: str) -> bool:
    """Return whether every value of type *source* is a value of type *target*.

    A nested type only matches itself.
    """
    source, target = source.lower(), target.lower()
    if source == target or (source, target) in _WIDER or (target == "string" and _TEXT.fullmatch(source)):
        return True
    if source in _DIGITS and target in _DIGITS:
        return _DIGITS[source] <= _DIGITS[target]
    before, after = _decimal(source), _decimal(target)
    if before is None or after is None or target in _DIGITS:
        return False
    return before[0] <= after[0] and before[1] <= after[1]


def with_way_out(error: MtError, table: TableIdentifier) -> str:
    """Return the text of a refresh error; if a source has changed or is missing, add how to fix it."""
    if isinstance(error, QueryFailed) and error.error_class == _MISSING:
        # The rest of Spark's text is about spelling and a position in the expanded query.
        return (
            f"{error.message.partition(' Verify the spelling')[0]} The query of {table} reads it, "
            f"directly or through a view: recreate it, or give the table another query with "
            f"ALTER MATERIALIZED TABLE {table} AS …; if {table} is SUSPENDED by then, RESUME it."
        )
    if not isinstance(error, QueryFailed) or not (error.error_class or "").startswith(_OF_SOURCES):
        return str(error)
    return f"{error} If a source has other columns now: {_way_out(table)}"


def _decimal(name: str) -> tuple[int, int] | None:
    """Return the numbers of digits before and after the decimal point, None for a type without them."""
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        return int(decimal[1]) - int(decimal[2]), int(decimal[2])
    return (_DIGITS[name], 0) if name in _DIGITS else None


def _changed(table: TableIdentifier, what: str) -> QueryFailed:
    text = f"The columns of the sources of {table} have changed: {what}. {_way_out(table)}"
    return QueryFailed(text, error_class=COLUMNS_CHANGED)


def _way_out(table: TableIdentifier) -> str:
    return (
        f"ALTER MATERIALIZED TABLE {table} AS … gives it a query that fits, with a CAST where a type differs."
    )
