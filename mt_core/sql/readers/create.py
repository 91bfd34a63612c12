"""CREATE [OR ALTER] MATERIALIZED TABLE: its clauses, in the order that Flink's parser accepts (FLIP-435).

The statement comes from Flink. A script that works in Flink should work here, and a statement that Flink
rejects should not be accepted by accident. Clauses are therefore accepted only in Flink's order. An error
lists the whole order, because a wrong order is the most frequent mistake. Clauses of Flink that Freshtable
cannot honor are refused with an alternative, never ignored. Extensions (SCHEDULE CRON, Iceberg's transforms
in PARTITIONED BY) have fixed places in that order. Types and the query are not parsed, because only Spark
knows their grammar. Their text is passed to Spark, with the line and column at which it begins. Values that
the model validates (freshness, cron, time zone) are constructed here, so that their errors are raised before
anything is created.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from mt_core.base.tokens import TokenKind
from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.model.cron import Cron
from mt_core.model.freshness import UNIT_SECONDS, Freshness, FreshnessUnit
from mt_core.model.table import RefreshMode
from mt_core.model.transform import SPELLINGS, Transform, TransformKind
from mt_core.model.zone import zone_named
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.statements import ColumnSpec, CreateMaterializedTable, Name

# The empty word stands for the beginning, before the first clause.
CLAUSES = (
    "",
    "COMMENT",
    "DISTRIBUTED",
    "PARTITIONED",
    "WITH",
    "START_MODE",
    "FRESHNESS",
    "SCHEDULE",
    "REFRESH_MODE",
    "AS",
)
CLAUSE_ORDER = (
    "the clauses are, in this order: (columns), COMMENT '…', PARTITIONED BY (…), WITH ('key' = 'value', …), "
    "FRESHNESS = INTERVAL 'n' unit or SCHEDULE CRON '…' [AT TIME ZONE '…'], "
    "REFRESH_MODE = FULL | CONTINUOUS, AS query"
)
_REFUSED = {
    "DISTRIBUTED": (
        "DISTRIBUTED is not supported: storage tables have no buckets; "
        "leave the clause out, or use PARTITIONED BY."
    ),
    "START_MODE": (
        "START_MODE is not supported: a materialized table always begins with all the rows of its sources; "
        "leave the clause out, and restrict the query with WHERE if it should begin later."
    ),
}
_UNITS = ", ".join(FreshnessUnit)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?", re.ASCII)
_WIDTH = re.compile(r"0*[1-9][0-9]*", re.ASCII)
MOST_WIDE = 2**31 - 1
"""The largest number that a transform accepts."""
_BRACKETS = {"(": 1, "<": 1, ")": -1, ">": -1}


@dataclass(slots=True)
class _Clauses:
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    freshness: Freshness | None = None
    cron: Cron | None = None
    zone: str | None = None
    refresh_mode: RefreshMode | None = None


def is_view(cursor: TokenCursor) -> bool:
    """Return whether VIEW comes next, which makes the statement Spark's.

    Raises SqlSyntaxError unless it is VIEW or TABLE.
    """
    if cursor.word() in {"VIEW", "VIEWS"}:
        return True
    cursor.expect("TABLE")
    return False


def create(cursor: TokenCursor, text: str, *, or_alter: bool = False) -> CreateMaterializedTable | None:
    """Read the rest of CREATE [OR ALTER] MATERIALIZED. Return None for Spark's MATERIALIZED VIEW.

    Raises SqlSyntaxError, DefinitionInvalid or Unsupported.
    """
    if or_alter:
        cursor.expect("TABLE")
    elif is_view(cursor):
        return None
    return create_named(cursor, text, or_alter=or_alter)


def create_named(cursor: TokenCursor, text: str, *, or_alter: bool) -> CreateMaterializedTable:
    """Read the rest of CREATE [OR ALTER] MATERIALIZED TABLE."""
    if cursor.word() == "IF" and cursor.word(1) == "NOT":
        raise cursor.error(
            "a name: CREATE MATERIALIZED TABLE has no IF NOT EXISTS, use CREATE OR ALTER MATERIALIZED TABLE"
        )
    name = cursor.name()
    columns = _read_columns(cursor, text, name) if cursor.word() == "(" else None
    clauses = _read_clauses(cursor)
    query, line, column = cursor.query()
    return CreateMaterializedTable(
        name=name,
        or_alter=or_alter,
        columns=columns,
        comment=clauses.comment,
        partition_keys=clauses.partition_keys,
        transforms=clauses.transforms,
        options=clauses.options,
        freshness=clauses.freshness,
        cron=clauses.cron,
        zone=clauses.zone,
        refresh_mode=clauses.refresh_mode,
        query=query,
        query_line=line,
        query_column=column,
    )


def _read_clauses(cursor: TokenCursor) -> _Clauses:
    clauses, before = _Clauses(), [""]
    while True:
        word = cursor.word()
        last = CLAUSES.index(before[-1])
        if word not in CLAUSES[1:]:
            remaining = [
                clause for clause in CLAUSES[last + 1 :] if clause not in {"DISTRIBUTED", "START_MODE"}
            ]
            expected = " or ".join(part for part in (", ".join(remaining[:-1]), remaining[-1]) if part)
            raise cursor.refusal(f"expected {expected}; {CLAUSE_ORDER}")
        if word in before:
            raise cursor.refusal(f"{word} is given twice")
        if CLAUSES.index(word) < last:
            raise cursor.refusal(f"{word} cannot come after {before[-1]}; {CLAUSE_ORDER}")
        before.append(word)
        cursor.take()
        if word == "AS":
            return clauses
        if word in _REFUSED:
            raise Unsupported(_REFUSED[word])
        _read_clause(cursor, word, clauses)


def _read_clause(cursor: TokenCursor, word: str, clauses: _Clauses) -> None:
    match word:
        case "COMMENT":
            clauses.comment = cursor.string("the comment in quotes")
        case "PARTITIONED":
            clauses.partition_keys, clauses.transforms = _read_partitioning(cursor)
        case "WITH":
            clauses.options = cursor.properties()
        case "FRESHNESS":
            cursor.expect("=")
            clauses.freshness = read_interval(cursor)
        case "SCHEDULE":
            if clauses.freshness is not None:
                raise cursor.refusal("a table has FRESHNESS or SCHEDULE CRON, not both")
            clauses.cron, clauses.zone = read_cron(cursor)
        case _:
            cursor.expect("=")
            clauses.refresh_mode = read_mode(cursor)


def read_cron(cursor: TokenCursor) -> tuple[Cron, str | None]:
    """Read the rest of the clause SCHEDULE. Return the cron expression, and the time zone or None."""
    if cursor.word() in {"EVERY", "REFRESH"}:
        raise cursor.refusal("expected CRON; an interval is FRESHNESS = INTERVAL 'n' unit")
    cursor.expect("CRON")
    cron = Cron(cursor.string("a cron expression in quotes, such as '0 6 * * MON-FRI'"))
    if not cursor.accept("AT", "TIME", "ZONE"):
        return cron, None
    zone = cursor.string("a time zone in quotes, such as 'Europe/Berlin'")
    zone_named(zone, "AT TIME ZONE")
    return cron, zone


def read_mode(cursor: TokenCursor) -> RefreshMode:
    mode = next((mode for mode in RefreshMode if cursor.accept(mode)), None)
    if mode is None:
        raise cursor.error("FULL or CONTINUOUS")
    return mode


# ----------------------------------------------------------------------------------------------- partitioning


def _read_partitioning(cursor: TokenCursor) -> tuple[tuple[str, ...], tuple[Transform, ...]]:
    """Read BY ( column | transform, … ); return the columns and the transforms."""
    cursor.expect("BY")
    keys: list[str] = []
    transforms: list[Transform] = []
    for _ in cursor.entries("the partition columns"):
        if cursor.word(1) == "(" and cursor.word() != "IDENTITY":
            transforms.append(_read_transform(cursor))
            continue
        in_brackets = cursor.accept("IDENTITY", "(")
        if (token := cursor.peek()) and token.value in keys:
            raise cursor.refusal(f"partition column {token.value} is given twice")
        keys.append(cursor.identifier("a partition column"))
        if in_brackets:
            cursor.expect(")")
    return tuple(keys), tuple(transforms)


def _read_transform(cursor: TokenCursor) -> Transform:
    """Read `function(column)`. A number may come before or after the column."""
    kind = SPELLINGS.get(cursor.word())
    if kind is None:
        raise cursor.refusal(
            "expected a column, or one of Iceberg's transforms: "
            "years(c), months(c), days(c), hours(c), bucket(n, c), "
            "truncate(n, c); compute anything else in the query and name it there with AS"
        )
    cursor.take()
    columns: list[str] = []
    widths: list[int] = []
    for _ in cursor.entries(f"the column of {kind}"):
        if kind.has_width and not widths and (token := cursor.peek()) and token.kind is TokenKind.NUMBER:
            widths.append(_read_width(cursor, kind))
        elif columns:
            raise cursor.error(
                f"the number of {kind}, such as {kind}(16, {columns[0]})" if kind.has_width else ")"
            )
        else:
            columns.append(cursor.identifier(f"the column of {kind}"))
            if cursor.word() == ".":
                raise cursor.refusal(
                    f"{kind} takes a whole column; give the field a name in the query with AS"
                )
    if not columns or (kind.has_width and not widths):
        raise cursor.refusal(
            f"{kind} takes a column and a number, such as {kind}(16, {(columns or ['c'])[0]})"
        )
    return Transform(kind=kind, column=columns[0], width=widths[0] if widths else None)


def _read_width(cursor: TokenCursor, kind: TransformKind) -> int:
    token = cursor.peek()
    if token is None or not _WIDTH.fullmatch(token.value) or int(token.value) > MOST_WIDE:
        raise cursor.error(f"a whole number of {kind}, from 1 to {MOST_WIDE}")
    return int(cursor.value("a number", TokenKind.NUMBER))


# -------------------------------------------------------------------------------------------------- freshness


def read_interval(cursor: TokenCursor) -> Freshness:
    """Read `INTERVAL 'n' unit`. A fractional number must amount to whole seconds.

    Raises DefinitionInvalid for an invalid value.
    """
    if not cursor.accept("INTERVAL"):
        raise cursor.refusal(
            "only interval FRESHNESS is supported; expected INTERVAL such as INTERVAL '1' DAY"
        )
    minus = "-" if cursor.accept("-") else ""
    number_text = minus + cursor.string("a number in quotes, such as INTERVAL '1' DAY")
    if cursor.at_end:
        raise cursor.error(f"a unit: {_UNITS}")
    unit = cursor.identifier(f"a unit: {_UNITS}").upper()
    if cursor.word() == "TO":
        units = f"{unit} TO {cursor.word(1)}"
        raise DefinitionInvalid(
            f"FRESHNESS: {units} is not supported; use one of {_UNITS}.", key="FRESHNESS", value=units
        )
    amount = Decimal(number_text.strip()) if _NUMBER.fullmatch(number_text.strip()) else Decimal(0)
    singular = unit.removesuffix("S")
    known_unit = FreshnessUnit(singular) if singular in set(FreshnessUnit) else None
    seconds = amount * (UNIT_SECONDS[known_unit] if known_unit else 1)
    if amount <= 0:
        raise DefinitionInvalid(
            f"FRESHNESS: only positive integers are supported, not '{number_text}'; "
            "write for example INTERVAL '1' DAY.",
            key="FRESHNESS",
            value=number_text,
        )
    if seconds != int(seconds):
        raise DefinitionInvalid(
            f"FRESHNESS: INTERVAL '{number_text}' {unit} is not a whole number of seconds; "
            "write for example INTERVAL '90' MINUTE.",
            key="FRESHNESS",
            value=number_text,
        )
    if known_unit and amount != int(amount):
        return Freshness.of_seconds(int(seconds))
    return Freshness(int(amount), known_unit or unit)


# ---------------------------------------------------------------------------------------------------- columns


def _read_columns(cursor: TokenCursor, text: str, table: Name) -> tuple[ColumnSpec, ...]:
    columns: list[ColumnSpec] = []
    for _ in cursor.entries("the columns"):
        _refuse_constraint(cursor)
        token = cursor.peek()
        column = _read_column(cursor, text)
        where = {"line": token.line, "column": token.column} if token else {}
        if any(other.name.lower() == column.name.lower() for other in columns):
            raise SqlSyntaxError(f"Column {column.name} of {'.'.join(table)} is given twice", **where)
        if columns and (columns[0].type is None) != (column.type is None):
            raise SqlSyntaxError(
                f"Column {column.name} of {'.'.join(table)}: give every column of the list a type, or none",
                **where,
            )
        columns.append(column)
    return tuple(columns)


def _refuse_constraint(cursor: TokenCursor) -> None:
    words = (cursor.word(), cursor.word(1))
    if words == ("WATERMARK", "FOR"):
        raise Unsupported(
            "WATERMARK is not supported in the columns of a materialized table; put it into the query."
        )
    if words == ("PRIMARY", "KEY") or (words[0] == "CONSTRAINT" and cursor.word(2) in {"PRIMARY", "UNIQUE"}):
        raise Unsupported(
            "PRIMARY KEY is not supported: storage tables enforce no keys; leave the constraint out."
        )


def _read_column(cursor: TokenCursor, text: str) -> ColumnSpec:
    name = cursor.identifier("a column name")
    type_text = _read_type(cursor, text, name)
    if type_text is None:
        return ColumnSpec(name=name)
    nullable = not cursor.accept("NOT", "NULL")
    if nullable:
        cursor.accept("NULL")
    _refuse_computed(cursor, name)
    return ColumnSpec(name=name, type=type_text, nullable=nullable, comment=cursor.comment())


def _refuse_computed(cursor: TokenCursor, column: str) -> None:
    if cursor.word() in {"AS", "METADATA", "GENERATED", "DEFAULT"}:
        raise Unsupported(
            f"Column {column}: computed, metadata and default columns are not supported; "
            f"compute {column} in the query."
        )
    if cursor.word() == "PRIMARY":
        _refuse_constraint(cursor)


_AFTER_TYPE = {"NOT", "NULL", "COMMENT", "AS", "METADATA", "GENERATED", "DEFAULT", "PRIMARY"}


def _read_type(cursor: TokenCursor, text: str, column: str) -> str | None:
    """Return the text of a type, which ends with the column's entry, or None if the column has no type."""
    _refuse_computed(cursor, column)
    first = last = cursor.peek()
    depth = 0
    while token := cursor.peek():
        if depth == 0 and (token.text in {",", ")"} or token.keyword in _AFTER_TYPE):
            break
        if token.kind is TokenKind.SYMBOL:
            depth += _BRACKETS.get(token.text, 0)
        last = cursor.take()
    if first is cursor.peek() and cursor.word() in _AFTER_TYPE:
        raise cursor.error(f"the type of column {column}, or , or )")
    if first is None or last is None or first is cursor.peek():
        return None
    return text[first.start : last.end]
