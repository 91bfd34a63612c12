"""The shape of a query's rows: which columns must come, and in which types, to be stored in a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mt_core.errors import MtError, QueryFailed
from mt_core.model.table import Column, TableIdentifier

# The columns of a query do not fit its table any more, which no retry changes.
COLUMNS_CHANGED = "COLUMNS_CHANGED"
# What analysis says of a query whose sources have other columns than it was written for.
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
    """Return the names of the query's columns in the order of the table's;
    raises QueryFailed if they do not fit any more.

    Columns are matched by name. Each must have the type that the definition recorded (*types*),
    or one whose values all fit the table's column exactly.
    """
    by_name = {column.name.lower(): column for column in produced}
    wanted = {column.name.lower() for column in stored}
    missing = [column.name for column in stored if column.name.lower() not in by_name]
    added = [column.name for column in produced if column.name.lower() not in wanted]
    if missing:
        raise _changed(table, f"the query gives no column {', '.join(missing)} any more")
    if added:
        raise _changed(table, f"the query gives {', '.join(added)} too, which the table does not have")
    if len(by_name) != len(produced):
        names = ", ".join(column.name for column in produced)
        raise _changed(table, f"the query gives two columns of one name ({names})")
    for column in stored:
        now = by_name[column.name.lower()]
        if now.type != types.get(column.name) and not is_exact(now.type, column.type, recorded=bool(types)):
            before = types.get(column.name, column.type)
            raise _changed(table, f"column {column.name} is {now.type.upper()} now and was {before.upper()}")
    return tuple(by_name[column.name.lower()].name for column in stored)


def positional_query(table: TableIdentifier, part: str) -> QueryFailed:
    """Return the error of a query that an earlier release stored: *part* of it takes columns by position."""
    text = (
        f"{part} in the query of {table} takes columns of a source by position, "
        "and may mean others than when an earlier release stored it. "
        f"ALTER MATERIALIZED TABLE {table} AS … with the same query stores the columns by name."
    )
    return QueryFailed(text, error_class=COLUMNS_CHANGED)


def is_exact(source: str, target: str, *, recorded: bool = True) -> bool:
    """Return whether every value of one type is a value of the other.

    Unless types are *recorded*, any nested type fits.
    """
    source, target = source.lower(), target.lower()
    if source == target or (source, target) in _WIDER or (target == "string" and _TEXT.fullmatch(source)):
        return True
    if "<" in source and "<" in target:
        return not recorded
    if source in _DIGITS and target in _DIGITS:
        return _DIGITS[source] <= _DIGITS[target]
    before, after = _decimal(source), _decimal(target)
    if before is None or after is None or target in _DIGITS:
        return False
    return before[0] <= after[0] and before[1] <= after[1]


def with_way_out(error: MtError, table: TableIdentifier) -> str:
    """Return the text of an error of a refresh; that of a changed or missing source says
    what to do about it.
    """
    if isinstance(error, QueryFailed) and error.error_class == _MISSING:
        # Spark goes on with the spelling, and a position in a text that nobody wrote.
        return (
            f"{error.message.partition(' Verify the spelling')[0]} The query of {table} reads it, "
            f"itself or by way of a view: create it again, or ALTER MATERIALIZED TABLE {table} AS … gives "
            f"the table another query; if {table} is SUSPENDED by then, RESUME it."
        )
    if not isinstance(error, QueryFailed) or not (error.error_class or "").startswith(_OF_SOURCES):
        return str(error)
    return f"{error} If a source has other columns now: {_way_out(table)}"


def _decimal(name: str) -> tuple[int, int] | None:
    """Return the digits before and after the point."""
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
