"""CREATE [OR ALTER] MATERIALIZED TABLE: its clauses, in the one order that Flink's parser accepts (FLIP-435)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.model.freshness import Freshness, FreshnessUnit
from mt_core.model.table import RefreshMode
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.statements import ColumnSpec, CreateMaterializedTable, Name
from mt_core.tokens import TokenKind

# The empty word stands for the beginning, before the first clause.
CLAUSES = ("", "COMMENT", "DISTRIBUTED", "PARTITIONED", "WITH", "START_MODE", "FRESHNESS", "REFRESH_MODE", "AS")
CLAUSE_ORDER = (
    "the clauses are, in this order: (columns), COMMENT '…', PARTITIONED BY (…), WITH ('key' = 'value', …), "
    "FRESHNESS = INTERVAL 'n' unit, REFRESH_MODE = FULL | CONTINUOUS, AS query"
)
_UNITS = ", ".join(FreshnessUnit)
_NUMBER = re.compile(r"([+-]?[0-9]{1,18})(?:\.[0-9]*)?", re.ASCII)
_BRACKETS = {"(": 1, "<": 1, ")": -1, ">": -1}


@dataclass(slots=True)
class _Clauses:
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    freshness: Freshness | None = None
    refresh_mode: RefreshMode | None = None


def read_create(cursor: TokenCursor, *, or_alter: bool) -> CreateMaterializedTable:
    """Read what follows CREATE [OR ALTER] MATERIALIZED TABLE; raises SqlSyntaxError, DefinitionInvalid or Unsupported."""
    if cursor.keyword() == "IF" and cursor.keyword(1) == "NOT":
        raise cursor.error(
            "a name: CREATE MATERIALIZED TABLE has no IF NOT EXISTS, use CREATE OR ALTER MATERIALIZED TABLE"
        )
    name = cursor.name()
    columns = _read_columns(cursor, name) if cursor.at_symbol("(") else None
    clauses = _read_clauses(cursor)
    query, line, column = cursor.query()
    return CreateMaterializedTable(
        name=name,
        or_alter=or_alter,
        columns=columns,
        comment=clauses.comment,
        partition_keys=clauses.partition_keys,
        options=clauses.options,
        freshness=clauses.freshness,
        refresh_mode=clauses.refresh_mode,
        query=query,
        query_line=line,
        query_column=column,
    )


def _read_clauses(cursor: TokenCursor) -> _Clauses:
    clauses, before = _Clauses(), [""]
    while True:
        word = cursor.keyword()
        last = CLAUSES.index(before[-1])
        if word not in CLAUSES[1:]:
            left = [clause for clause in CLAUSES[last + 1 :] if clause not in {"DISTRIBUTED", "START_MODE"}]
            expected = " or ".join(part for part in (", ".join(left[:-1]), left[-1]) if part)
            raise cursor.refusal(f"expected {expected}; {CLAUSE_ORDER}")
        if word in before:
            raise cursor.refusal(f"{word} is given twice")
        if CLAUSES.index(word) < last:
            raise cursor.refusal(f"{word} cannot come after {before[-1]}; {CLAUSE_ORDER}")
        before.append(word)
        cursor.take()
        if word == "AS":
            return clauses
        _READERS[word](cursor, clauses)


def _read_comment(cursor: TokenCursor, clauses: _Clauses) -> None:
    clauses.comment = cursor.string("the comment in quotes")


def _read_partition_keys(cursor: TokenCursor, clauses: _Clauses) -> None:
    cursor.expect("BY")
    for _ in cursor.entries("the partition columns"):
        if (token := cursor.peek()) and token.value in clauses.partition_keys:
            raise cursor.refusal(f"partition column {token.value} is given twice")
        clauses.partition_keys = (*clauses.partition_keys, cursor.identifier("a partition column"))


def _read_options(cursor: TokenCursor, clauses: _Clauses) -> None:
    clauses.options = cursor.properties()


def _read_freshness(cursor: TokenCursor, clauses: _Clauses) -> None:
    cursor.expect_symbol("=")
    clauses.freshness = read_interval(cursor)


def _read_refresh_mode(cursor: TokenCursor, clauses: _Clauses) -> None:
    cursor.expect_symbol("=")
    for mode in RefreshMode:
        if cursor.accept(mode):
            clauses.refresh_mode = mode
            return
    raise cursor.error("FULL or CONTINUOUS")


def _refuse_distributed(cursor: TokenCursor, clauses: _Clauses) -> None:
    raise Unsupported(
        "DISTRIBUTED is not supported: storage tables have no buckets; leave the clause out, or use PARTITIONED BY."
    )


def _refuse_start_mode(cursor: TokenCursor, clauses: _Clauses) -> None:
    raise Unsupported(
        "START_MODE is not supported: a materialized table always begins with all the rows of its sources; "
        "leave the clause out, and restrict the query with WHERE if it should begin later."
    )


_READERS: Mapping[str, Callable[[TokenCursor, _Clauses], None]] = {
    "COMMENT": _read_comment,
    "DISTRIBUTED": _refuse_distributed,
    "PARTITIONED": _read_partition_keys,
    "WITH": _read_options,
    "START_MODE": _refuse_start_mode,
    "FRESHNESS": _read_freshness,
    "REFRESH_MODE": _read_refresh_mode,
}

# ------------------------------------------------------------------------------------------------------------ freshness


def read_interval(cursor: TokenCursor) -> Freshness:
    """Read `INTERVAL 'n' unit`; fractions are cut. Raises DefinitionInvalid for a number or unit that does not fit."""
    if not cursor.accept("INTERVAL"):
        raise cursor.refusal("only interval FRESHNESS is supported; expected INTERVAL such as INTERVAL '1' DAY")
    minus = "-" if cursor.accept_symbol("-") else ""
    written = minus + cursor.string("a number in quotes, such as INTERVAL '1' DAY")
    if cursor.at_end:
        raise cursor.error(f"a unit: {_UNITS}")
    unit = cursor.identifier(f"a unit: {_UNITS}").upper()
    if cursor.keyword() == "TO":
        units = f"{unit} TO {cursor.keyword(1)}"
        raise DefinitionInvalid(
            f"FRESHNESS: {units} is not supported; use one of {_UNITS}.", key="FRESHNESS", value=units
        )
    number = _NUMBER.fullmatch(written.strip())
    if number is None or int(number[1]) <= 0:
        raise DefinitionInvalid(
            f"FRESHNESS: only positive integers are supported, not '{written}'; write for example INTERVAL '1' DAY.",
            key="FRESHNESS",
            value=written,
        )
    singular = unit.removesuffix("S")
    return Freshness(int(number[1]), singular if singular in set(FreshnessUnit) else unit)


# -------------------------------------------------------------------------------------------------------------- columns


def _read_columns(cursor: TokenCursor, table: Name) -> tuple[ColumnSpec, ...]:
    columns: list[ColumnSpec] = []
    for _ in cursor.entries("the columns"):
        _refuse_constraint(cursor)
        token = cursor.peek()
        column = _read_column(cursor)
        where = {"line": token.line, "column": token.column} if token else {}
        if any(other.name.lower() == column.name.lower() for other in columns):
            raise SqlSyntaxError(f"Column {column.name} of {'.'.join(table)} is given twice", **where)
        if columns and (columns[0].type is None) != (column.type is None):
            raise SqlSyntaxError(
                f"Column {column.name} of {'.'.join(table)}: give every column of the list a type, or none", **where
            )
        columns.append(column)
    return tuple(columns)


def _refuse_constraint(cursor: TokenCursor) -> None:
    words = (cursor.keyword(), cursor.keyword(1))
    if words == ("WATERMARK", "FOR"):
        raise Unsupported("WATERMARK is not supported in the columns of a materialized table; put it into the query.")
    if words == ("PRIMARY", "KEY") or (words[0] == "CONSTRAINT" and cursor.keyword(2) in {"PRIMARY", "UNIQUE"}):
        raise Unsupported("PRIMARY KEY is not supported: storage tables enforce no keys; leave the constraint out.")


def _read_column(cursor: TokenCursor) -> ColumnSpec:
    name = cursor.identifier("a column name")
    type_text = _read_type(cursor, name)
    if type_text is None:
        return ColumnSpec(name=name)
    nullable = not cursor.accept("NOT", "NULL")
    if nullable:
        cursor.accept("NULL")
    _refuse_computed(cursor, name)
    return ColumnSpec(name=name, type=type_text, nullable=nullable, comment=cursor.comment())


def _refuse_computed(cursor: TokenCursor, column: str) -> None:
    if cursor.keyword() in {"AS", "METADATA", "GENERATED", "DEFAULT"}:
        raise Unsupported(
            f"Column {column}: computed, metadata and default columns are not supported; compute {column} in the query."
        )
    if cursor.keyword() == "PRIMARY":
        _refuse_constraint(cursor)


_AFTER_TYPE = {"NOT", "NULL", "COMMENT", "AS", "METADATA", "GENERATED", "DEFAULT", "PRIMARY"}


def _read_type(cursor: TokenCursor, column: str) -> str | None:
    """Return the text of a type, up to the end of the column; None if there is none."""
    _refuse_computed(cursor, column)
    first = last = cursor.peek()
    depth = 0
    while token := cursor.peek():
        if depth == 0 and (token.text in {",", ")"} or token.keyword in _AFTER_TYPE):
            break
        if token.kind is TokenKind.SYMBOL:
            depth += _BRACKETS.get(token.text, 0)
        last = cursor.take()
    if first is cursor.peek() and cursor.keyword() in _AFTER_TYPE:
        raise cursor.error(f"the type of column {column}, or , or )")
    if first is None or last is None or first is cursor.peek():
        return None
    return cursor.text_between(first, last)
