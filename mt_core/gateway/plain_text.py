"""Values as text, for rowFormat=PLAIN_TEXT: always a string, or null at the top level."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from mt_core.rowset import Column

NULL = "NULL"
_MS_PER = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}

TypeJson = Mapping[str, Any]


def plain_rows(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Return *rows*, which are in JSON form, as text."""
    types = [column.type.to_json() for column in columns]
    return [[plain(value, type_) for value, type_ in zip(row, types, strict=True)] for row in rows]


def plain(value: Any, type_: TypeJson) -> str | None:
    """Return one value as text; null stays None."""
    if value is None:
        return None
    return _WRITERS.get(type_["type"], _verbatim)(value, type_)


def _inner(value: Any, type_: TypeJson) -> str:
    text = plain(value, type_)
    return NULL if text is None else text


def _verbatim(value: Any, type_: TypeJson) -> str:
    return str(value)


def _boolean(value: Any, type_: TypeJson) -> str:
    return "TRUE" if value else "FALSE"


def _float(value: Any, type_: TypeJson) -> str:
    return _java(value, _shortest_float)


def _double(value: Any, type_: TypeJson) -> str:
    return _java(value, repr)


def _java(value: Any, shortest: Callable[[float], str]) -> str:
    """Return a number as Java prints it: 1.0, 1.0E20, 1.0E-4."""
    if isinstance(value, str):
        return value
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    digits = Decimal(shortest(number))
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(digits, "f")
        return text if "." in text else f"{text}.0"
    sign, figures, _ = digits.normalize().as_tuple()
    mantissa = "".join(str(figure) for figure in figures)
    return f"{'-' if sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{digits.adjusted()}"


def _shortest_float(number: float) -> str:
    packed = struct.pack("f", number)
    texts = (f"{number:.{precision}g}" for precision in range(1, 10))
    return next((text for text in texts if struct.pack("f", float(text)) == packed), repr(number))


def _decimal(value: Any, type_: TypeJson) -> str:
    return f"{Decimal(str(value)):.{type_.get('scale', 0)}f}"


def _binary(value: Any, type_: TypeJson) -> str:
    return f"x'{base64.b64decode(value).hex()}'"


def _timestamp(value: Any, type_: TypeJson) -> str:
    moment, _, fraction = str(value).replace("T", " ").removesuffix("Z").partition(".")
    precision = type_.get("precision", 6)
    return f"{moment}.{fraction.ljust(precision, '0')[:precision]}" if precision else moment


def _day_time(value: Any, type_: TypeJson) -> str:
    left = abs(int(value))
    days, left = divmod(left, _MS_PER["day"])
    hours, left = divmod(left, _MS_PER["hour"])
    minutes, left = divmod(left, _MS_PER["minute"])
    seconds, ms = divmod(left, _MS_PER["second"])
    return f"{'-' if value < 0 else '+'}{days} {hours:02}:{minutes:02}:{seconds:02}.{ms:03}"


def _year_month(value: Any, type_: TypeJson) -> str:
    years, months = divmod(abs(int(value)), 12)
    return f"{'-' if value < 0 else '+'}{years}-{months:02}"


def _array(value: Any, type_: TypeJson) -> str:
    return "[" + ", ".join(_inner(item, type_["elementType"]) for item in value) + "]"


def _map(value: Any, type_: TypeJson) -> str:
    return "{" + ", ".join(f"{key}={_inner(item, type_['valueType'])}" for key, item in value.items()) + "}"


def _multiset(value: Any, type_: TypeJson) -> str:
    return "{" + ", ".join(f"{key}={count}" for key, count in value.items()) + "}"


def _row(value: Any, type_: TypeJson) -> str:
    fields = [_inner(value.get(field["name"]), field["fieldType"]) for field in type_["fields"]]
    return "(" + ", ".join(fields) + ")"


_WRITERS: Mapping[str, Callable[[Any, TypeJson], str]] = {
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "BINARY": _binary,
    "VARBINARY": _binary,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _timestamp,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _timestamp,
    "INTERVAL_DAY_TIME": _day_time,
    "INTERVAL_YEAR_MONTH": _year_month,
    "ARRAY": _array,
    "MAP": _map,
    "MULTISET": _multiset,
    "ROW": _row,
}
