"""Translates Spark's column types to Flink's syntax."""

from __future__ import annotations

from mt_core.base.identifiers import quote
from mt_core.errors import SqlSyntaxError
from mt_core.sql.cursor import TokenCursor

_FLINK = {
    "TIMESTAMP": "TIMESTAMP_LTZ(6)",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "BINARY": "BYTES",
    "VOID": "NULL",
}


def in_flink(spark_type: str) -> str:
    """Return *spark_type* as DESCRIBE prints it: STRING, DECIMAL(10, 2), MAP<STRING NOT NULL, INT>.

    A string that is not a type is returned unchanged.
    """
    try:
        cursor = TokenCursor(spark_type)
        flink_type = _type(cursor)
        cursor.expect_end()
    except SqlSyntaxError:
        return spark_type
    return flink_type


def _type(cursor: TokenCursor) -> str:
    word = cursor.identifier("a type").upper()
    if word == "INTERVAL":
        units = [cursor.identifier("a unit of an interval").upper()]
        if cursor.accept("TO"):
            units.append(cursor.identifier("a unit of an interval").upper())
        return f"INTERVAL {' TO '.join(units)}" + ("(6)" if units[-1] == "SECOND" else "")
    if word == "STRING" and cursor.accept("COLLATE"):
        cursor.identifier("a collation")
    if cursor.accept("<"):
        inner = _inner(cursor, word)
        cursor.expect(">")
        return f"{'ROW' if word == 'STRUCT' else word}<{inner}>"
    numbers = cursor.numbers()
    return _FLINK.get(word, word) + (f"({numbers})" if numbers else "")


def _inner(cursor: TokenCursor, word: str) -> str:
    if word == "STRUCT":
        fields = [_field(cursor)]
        while cursor.accept(","):
            fields.append(_field(cursor))
        return ", ".join(fields)
    if word != "MAP":
        return _type(cursor)
    key = _type(cursor)
    cursor.expect(",")
    return f"{key} NOT NULL, {_type(cursor)}"


def _field(cursor: TokenCursor) -> str:
    name = cursor.identifier("the name of a field")
    cursor.expect(":")
    return f"{quote(name)} {_type(cursor)}"
