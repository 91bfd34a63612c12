"""CREATE [OR ALTER] MATERIALIZED TABLE: its clauses, in the one order that Flink's parser accepts (FLIP-435)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.model.freshness import Freshness, FreshnessUnit
from mt_core.model.table import RefreshMode
from mt_core.sql.cursor import Cursor
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


def read_create(cursor: Cursor, *, or_alter: bool) -> CreateMaterializedTable:
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


def _read_clauses(cursor: Cursor) -> _Clauses:
    clauses, seen = _Clauses(), [""]
    while True:
        word = cursor.keyword()
        last = CLAUSES.index(seen[-1])
        if word not in CLAUSES[1:]:
            raise cursor.refusal(f"expected {_expected(last)}; {CLAUSE_ORDER}")
        if word in seen:
            raise cursor.refusal(f"{word} is given twice")
        if CLAUSES.index(word) < last:
            raise cursor.refusal(f"{word} cannot come after {seen[-1]}; {CLAUSE_ORDER}")
        seen.append(word)
        cursor.take()
        if word == "AS":
            return clauses
        _READERS[word](cursor, clauses)


def _expected(position: int) -> str:
    left = [word for word in CLAUSES[position + 1 :] if word not in {"DISTRIBUTED", "START_MODE"}]
    return left[0] if len(left) == 1 else f"{', '.join(left[:-1])} or {left[-1]}"


def _read_comment(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.comment = cursor.string("the comment in quotes")


def _read_partition_keys(cursor: Cursor, clauses: _Clauses) -> None:
    found: list[str] = []

    def item() -> None:
        if (token := cursor.peek()) and token.value in found:
            raise cursor.refusal(f"partition column {token.value} is given twice")
        found.append(cursor.identifier("a partition column"))

    cursor.expect("BY")
    cursor.entries(item, "the partition columns")
    clauses.partition_keys = tuple(found)


def _read_options(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.options = cursor.properties()


def _read_freshness(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect_symbol("=")
    clauses.freshness = read_interval(cursor)


def _read_refresh_mode(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect_symbol("=")
    for mode in RefreshMode:
        if cursor.accept(mode):
            clauses.refresh_mode = mode
            return
    raise cursor.error("FULL or CONTINUOUS")


def _refuse_distributed(cursor: Cursor, clauses: _Clauses) -> None:
    raise Unsupported(
        "DISTRIBUTED is not supported: storage tables have no buckets; leave the clause out, or use PARTITIONED BY."
    )


def _refuse_start_mode(cursor: Cursor, clauses: _Clauses) -> None:
    raise Unsupported(
        "START_MODE is not supported: a materialized table always begins with all its sources hold; "
        "leave the clause out, and restrict the query with WHERE if it should begin later."
    )


_READERS: Mapping[str, Callable[[Cursor, _Clauses], None]] = {
    "COMMENT": _read_comment,
    "DISTRIBUTED": _refuse_distributed,
    "PARTITIONED": _read_partition_keys,
    "WITH": _read_options,
    "START_MODE": _refuse_start_mode,
    "FRESHNESS": _read_freshness,
    "REFRESH_MODE": _read_refresh_mode,
}

# ------------------------------------------------------------------------------------------------------------ freshness


def read_interval(cursor: Cursor) -> Freshness:
    """Read `INTERVAL 'n' unit`; fractions are cut. Raises DefinitionInvalid for a number or unit that does not fit."""
    if not cursor.accept("INTERVAL"):
        raise cursor.refusal("only interval FRESHNESS is supported; expected INTERVAL such as INTERVAL '1' DAY")
    minus = cursor.accept_symbol("-")
    written = cursor.string("a number in quotes, such as INTERVAL '1' DAY")
    if cursor.at_end:
        raise cursor.error(f"a unit: {_UNITS}")
    unit = cursor.identifier(f"a unit: {_UNITS}").upper()
    if cursor.keyword() == "TO":
        units = f"{unit} TO {cursor.keyword(1)}"
        raise DefinitionInvalid(
            f"FRESHNESS: {units} is not supported; use one of {_UNITS}.", key="FRESHNESS", value=units
        )
    return Freshness(_amount(f"-{written}" if minus else written), _singular(unit))


def _amount(written: str) -> int:
    number = _NUMBER.fullmatch(written.strip())
    amount = int(number[1]) if number else 0
    if amount <= 0:
        raise DefinitionInvalid(
            f"FRESHNESS: only positive integers are supported, not '{written}'; write for example INTERVAL '1' DAY.",
            key="FRESHNESS",
            value=written,
        )
    return amount


def _singular(unit: str) -> str:
    return unit.removesuffix("S") if unit.removesuffix("S") in set(FreshnessUnit) else unit


# -------------------------------------------------------------------------------------------------------------- columns


def _read_columns(cursor: Cursor, table: Name) -> tuple[ColumnSpec, ...]:
    found: list[ColumnSpec] = []

    def item() -> None:
        _refuse_constraint(cursor)
        token = cursor.peek()
        column = _read_column(cursor)
        where = {"line": token.line, "column": token.column} if token else {}
        if any(other.name.lower() == column.name.lower() for other in found):
            raise SqlSyntaxError(f"Column {column.name} of {'.'.join(table)} is given twice", **where)
        if found and (found[0].type is None) != (column.type is None):
            raise SqlSyntaxError(
                f"Column {column.name} of {'.'.join(table)}: give every column of the list a type, or none", **where
            )
        found.append(column)

    cursor.entries(item, "the columns")
    return tuple(found)


def _refuse_constraint(cursor: Cursor) -> None:
    words = (cursor.keyword(), cursor.keyword(1))
    if words == ("WATERMARK", "FOR"):
        raise Unsupported("WATERMARK is not supported in the columns of a materialized table; put it into the query.")
    if words == ("PRIMARY", "KEY") or (words[0] == "CONSTRAINT" and cursor.keyword(2) in {"PRIMARY", "UNIQUE"}):
        raise Unsupported("PRIMARY KEY is not supported: storage tables enforce no keys; leave the constraint out.")


def _read_column(cursor: Cursor) -> ColumnSpec:
    name = cursor.identifier("a column name")
    type_text = _read_type(cursor, name)
    if type_text is None:
        return ColumnSpec(name=name)
    nullable, comment = True, None
    if cursor.accept("NOT", "NULL"):
        nullable = False
    else:
        cursor.accept("NULL")
    _refuse_computed(cursor, name)
    if cursor.accept("COMMENT"):
        comment = cursor.string("the comment in quotes")
    return ColumnSpec(name=name, type=type_text, nullable=nullable, comment=comment)


def _refuse_computed(cursor: Cursor, column: str) -> None:
    if cursor.keyword() in {"AS", "METADATA", "GENERATED", "DEFAULT"}:
        raise Unsupported(
            f"Column {column}: computed, metadata and default columns are not supported; compute {column} in the query."
        )
    if cursor.keyword() == "PRIMARY":
        _refuse_constraint(cursor)


_AFTER_TYPE = {"NOT", "NULL", "COMMENT", "AS", "METADATA", "GENERATED", "DEFAULT", "PRIMARY"}


def _read_type(cursor: Cursor, column: str) -> str | None:
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
