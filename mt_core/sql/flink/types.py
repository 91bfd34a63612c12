"""Column types in Flink's words: read into Spark's, and written from logical types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mt_core.identifiers import quote
from mt_core.rowset import STRING_LENGTH
from mt_core.sql.cursor import Cursor
from mt_core.tokens import TokenKind

TypeJson = Mapping[str, Any]
_SAME_WITH_ARGUMENTS = {"DECIMAL", "CHAR", "VARCHAR", "TIME"}
_RENAMED = {
    "BYTES": "BINARY",
    "VARBINARY": "BINARY",
    "INTEGER": "INT",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "REAL": "FLOAT",
}

# -------------------------------------------------------------------------------------------------------------- reading


def read_type(cursor: Cursor) -> str:
    """Read a type as Flink writes it and return it as Spark does."""
    word = cursor.identifier("a type").upper()
    nested = _NESTED.get(word)
    if nested is not None:
        return nested(cursor)
    if word == "INTERVAL":
        return _interval(cursor)
    arguments = _arguments(cursor)
    if word == "TIMESTAMP":
        return _timestamp(cursor)
    if word == "TIME":
        cursor.accept("WITHOUT", "TIME", "ZONE")
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    if word in {"VARCHAR", "CHAR"} and (not arguments or arguments == str(STRING_LENGTH)):
        return "STRING" if word == "VARCHAR" else "CHAR(1)"
    spark = _RENAMED.get(word, word)
    return f"{spark}({arguments})" if arguments and spark in _SAME_WITH_ARGUMENTS else spark


def _arguments(cursor: Cursor) -> str:
    found: list[str] = []

    def item() -> None:
        token = cursor.take()
        if token is None or token.kind is not TokenKind.NUMBER:
            raise cursor.error("a number")
        found.append(token.text)

    if cursor.at_symbol("("):
        cursor.entries(item, "the numbers of a type")
    return ", ".join(found)


def _timestamp(cursor: Cursor) -> str:
    if cursor.accept("WITH", "LOCAL", "TIME", "ZONE") or cursor.accept("WITH", "TIME", "ZONE"):
        return "TIMESTAMP"
    cursor.accept("WITHOUT", "TIME", "ZONE")
    return "TIMESTAMP_NTZ"


def _interval(cursor: Cursor) -> str:
    words = [_unit(cursor)]
    if cursor.accept("TO"):
        words.append(_unit(cursor))
    return f"INTERVAL {' TO '.join(words)}"


def _unit(cursor: Cursor) -> str:
    unit = cursor.identifier("a unit of an interval").upper()
    _arguments(cursor)
    return unit


def _array(cursor: Cursor) -> str:
    return f"ARRAY<{_enclosed(cursor, lambda: _element(cursor))}>"


def _multiset(cursor: Cursor) -> str:
    return f"MAP<{_enclosed(cursor, lambda: _element(cursor))}, INT>"


def _map(cursor: Cursor) -> str:
    def pair() -> str:
        key = _element(cursor)
        cursor.expect_symbol(",")
        return f"{key}, {_element(cursor)}"

    return f"MAP<{_enclosed(cursor, pair)}>"


def _row(cursor: Cursor) -> str:
    def fields() -> str:
        found = [_field(cursor)]
        while cursor.accept_symbol(","):
            found.append(_field(cursor))
        return ", ".join(found)

    return f"STRUCT<{_enclosed(cursor, fields)}>"


def _field(cursor: Cursor) -> str:
    name = cursor.identifier("the name of a field")
    cursor.accept_symbol(":")
    return f"{quote(name)}: {_element(cursor)}"


def _element(cursor: Cursor) -> str:
    found = read_type(cursor)
    if not cursor.accept("NOT", "NULL"):
        cursor.accept("NULL")
    return found


def _enclosed(cursor: Cursor, inner: Callable[[], str]) -> str:
    if cursor.accept_symbol("("):
        found, close = inner(), ")"
    else:
        cursor.expect_symbol("<")
        found, close = inner(), ">"
    cursor.expect_symbol(close)
    return found


_NESTED: Mapping[str, Callable[[Cursor], str]] = {
    "ARRAY": _array,
    "MULTISET": _multiset,
    "MAP": _map,
    "ROW": _row,
    "STRUCT": _row,
}

# -------------------------------------------------------------------------------------------------------------- writing

_SHORT = {
    "INTEGER": "INT",
    "TIME_WITHOUT_TIME_ZONE": "TIME",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ",
}


def type_text(type_: TypeJson) -> str:
    """Return the JSON of a logical type as DESCRIBE prints it: STRING, INT, DECIMAL(10, 2), ARRAY<INT>."""
    root = type_["type"]
    if root in {"VARCHAR", "VARBINARY"} and type_.get("length") == STRING_LENGTH:
        return "STRING" if root == "VARCHAR" else "BYTES"
    writer = _WRITERS.get(root)
    if writer is not None:
        return writer(type_)
    numbers = [str(type_[key]) for key in ("length", "precision", "scale") if key in type_]
    short = _SHORT.get(root, root)
    return f"{short}({', '.join(numbers)})" if numbers else str(short)


def _inner(type_: TypeJson) -> str:
    return type_text(type_) + ("" if type_.get("nullable", True) else " NOT NULL")


def _fields_text(type_: TypeJson) -> str:
    fields = (f"{quote(field['name'])} {_inner(field['fieldType'])}" for field in type_["fields"])
    return f"ROW<{', '.join(fields)}>"


def _year_month(type_: TypeJson) -> str:
    return f"INTERVAL {type_['resolution'].replace('_', ' ')}"


def _day_time(type_: TypeJson) -> str:
    words = type_["resolution"].replace("_", " ")
    return f"INTERVAL {words}({type_['fractionalPrecision']})" if words.endswith("SECOND") else f"INTERVAL {words}"


_WRITERS: Mapping[str, Callable[[TypeJson], str]] = {
    "ARRAY": lambda type_: f"ARRAY<{_inner(type_['elementType'])}>",
    "MULTISET": lambda type_: f"MULTISET<{_inner(type_['elementType'])}>",
    "MAP": lambda type_: f"MAP<{_inner(type_['keyType'])}, {_inner(type_['valueType'])}>",
    "ROW": _fields_text,
    "INTERVAL_YEAR_MONTH": _year_month,
    "INTERVAL_DAY_TIME": _day_time,
}
