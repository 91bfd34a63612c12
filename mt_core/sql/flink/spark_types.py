"""Column types as Spark spells them, shown in Flink's words."""

from __future__ import annotations

from mt_core.errors import SqlSyntaxError
from mt_core.identifiers import quote
from mt_core.sql.cursor import Cursor

_FLINK = {
    "TIMESTAMP": "TIMESTAMP_LTZ(6)",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "BINARY": "BYTES",
    "VOID": "NULL",
}


def in_flink(spark_type: str) -> str:
    """Return *spark_type* as DESCRIBE prints it: STRING, DECIMAL(10, 2), MAP<STRING NOT NULL, INT>.

    Text that cannot be read is returned as it is.
    """
    try:
        cursor = Cursor(spark_type)
        found = _type(cursor)
        cursor.expect_end()
    except SqlSyntaxError:
        return spark_type
    return found


def _type(cursor: Cursor) -> str:
    word = cursor.identifier("a type").upper()
    if word == "INTERVAL":
        return _interval(cursor)
    if word == "STRING" and cursor.accept("COLLATE"):
        cursor.identifier("a collation")
    if cursor.accept_symbol("<"):
        found = f"{'ROW' if word == 'STRUCT' else word}<{_inner(cursor, word)}>"
        cursor.expect_symbol(">")
        return found
    numbers = _numbers(cursor) if cursor.at_symbol("(") else []
    return _FLINK.get(word, word) + (f"({', '.join(numbers)})" if numbers else "")


def _inner(cursor: Cursor, word: str) -> str:
    if word == "STRUCT":
        fields = [_field(cursor)]
        while cursor.accept_symbol(","):
            fields.append(_field(cursor))
        return ", ".join(fields)
    if word != "MAP":
        return _type(cursor)
    key = _type(cursor)
    cursor.expect_symbol(",")
    return f"{key} NOT NULL, {_type(cursor)}"


def _field(cursor: Cursor) -> str:
    name = cursor.identifier("the name of a field")
    cursor.expect_symbol(":")
    return f"{quote(name)} {_type(cursor)}"


def _interval(cursor: Cursor) -> str:
    units = [cursor.identifier("a unit of an interval").upper()]
    if cursor.accept("TO"):
        units.append(cursor.identifier("a unit of an interval").upper())
    return f"INTERVAL {' TO '.join(units)}" + ("(6)" if units[-1] == "SECOND" else "")


def _numbers(cursor: Cursor) -> list[str]:
    found: list[str] = []

    def item() -> None:
        token = cursor.take()
        if token is not None:
            found.append(token.text)

    cursor.entries(item, "the numbers of a type")
    return found
