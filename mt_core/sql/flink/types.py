"""Column types in Flink's syntax: translated to Spark's, and written from logical types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mt_core.base.identifiers import quote
from mt_core.base.rowset import STRING_LENGTH
from mt_core.sql.cursor import TokenCursor

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
# A MULTISET maps each element to its number of occurrences.
_NESTED = {
    "ARRAY": "ARRAY<{}>",
    "MULTISET": "MAP<{}, INT>",
    "MAP": "MAP<{}>",
    "ROW": "STRUCT<{}>",
    "STRUCT": "STRUCT<{}>",
}

# ---------------------------------------------------------------------------------------------------- reading


def read_type(cursor: TokenCursor) -> str:
    """Read a type in Flink's syntax and return it in Spark's. Raises SqlSyntaxError."""
    word = cursor.identifier("a type").upper()
    if word in _NESTED:
        return _nested(cursor, word)
    if word == "INTERVAL":
        return _interval(cursor)
    arguments = cursor.numbers()
    if word == "TIMESTAMP":
        if cursor.accept("WITH", "LOCAL", "TIME", "ZONE") or cursor.accept("WITH", "TIME", "ZONE"):
            return "TIMESTAMP"
        cursor.accept("WITHOUT", "TIME", "ZONE")
        return "TIMESTAMP_NTZ"
    if word == "TIME":
        cursor.accept("WITHOUT", "TIME", "ZONE")
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    if word in {"VARCHAR", "CHAR"} and (not arguments or arguments == str(STRING_LENGTH)):
        return "STRING" if word == "VARCHAR" else "CHAR(1)"
    spark = _RENAMED.get(word, word)
    return f"{spark}({arguments})" if arguments and spark in _SAME_WITH_ARGUMENTS else spark


def _interval(cursor: TokenCursor) -> str:
    units = [cursor.identifier("a unit of an interval").upper()]
    cursor.numbers()
    if cursor.accept("TO"):
        units.append(cursor.identifier("a unit of an interval").upper())
        cursor.numbers()
    return f"INTERVAL {' TO '.join(units)}"


def _nested(cursor: TokenCursor, word: str) -> str:
    """Read the type arguments of a nested type, in angle brackets or parentheses."""
    close = ")" if cursor.accept("(") else ">"
    if close == ">":
        cursor.expect("<")
    if word == "MAP":
        key = _element(cursor)
        cursor.expect(",")
        inner = f"{key}, {_element(cursor)}"
    elif word in {"ROW", "STRUCT"}:
        fields = [_field(cursor)]
        while cursor.accept(","):
            fields.append(_field(cursor))
        inner = ", ".join(fields)
    else:
        inner = _element(cursor)
    cursor.expect(close)
    return _NESTED[word].format(inner)


def _field(cursor: TokenCursor) -> str:
    name = cursor.identifier("the name of a field")
    cursor.accept(":")
    return f"{quote(name)}: {_element(cursor)}"


def _element(cursor: TokenCursor) -> str:
    element = read_type(cursor)
    if not cursor.accept("NOT", "NULL"):
        cursor.accept("NULL")
    return element


# ---------------------------------------------------------------------------------------------------- writing

_SHORT = {
    "INTEGER": "INT",
    "TIME_WITHOUT_TIME_ZONE": "TIME",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ",
}


def type_text(type_: TypeJson) -> str:
    """Return a logical type, given as JSON, as DESCRIBE prints it: STRING, DECIMAL(10, 2), ARRAY<INT>."""
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
    return ", ".join(f"{quote(field['name'])} {_inner(field['fieldType'])}" for field in type_["fields"])


def _interval_text(type_: TypeJson) -> str:
    words = f"INTERVAL {type_['resolution'].replace('_', ' ')}"
    return f"{words}({type_['fractionalPrecision']})" if words.endswith("SECOND") else words


_WRITERS: Mapping[str, Callable[[TypeJson], str]] = {
    "ARRAY": lambda type_: f"ARRAY<{_inner(type_['elementType'])}>",
    "MULTISET": lambda type_: f"MULTISET<{_inner(type_['elementType'])}>",
    "MAP": lambda type_: f"MAP<{_inner(type_['keyType'])}, {_inner(type_['valueType'])}>",
    "ROW": lambda type_: f"ROW<{_fields_text(type_)}>",
    "INTERVAL_YEAR_MONTH": _interval_text,
    "INTERVAL_DAY_TIME": _interval_text,
}
