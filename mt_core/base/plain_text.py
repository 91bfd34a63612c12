"""Values formatted as Flink prints them: always a string, or None for a null at the top level."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from mt_core.base.rowset import Column

NULL = "NULL"

TypeJson = Mapping[str, Any]


def plain_rows(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Convert *rows* from the JSON form of the REST API to text."""
    types = [column.type.to_json() for column in columns]
    return [[plain(value, type_) for value, type_ in zip(row, types, strict=True)] for row in rows]


def plain(value: Any, type_: TypeJson) -> str | None:
    """Convert one value to text; None stays None."""
    if value is None:
        return None
    writer = _WRITERS.get(type_["type"])
    return str(value) if writer is None else writer(value, type_)


def _float(value: Any, type_: TypeJson) -> str:
    """Return a FLOAT or DOUBLE as Java prints it: 1.0, 1.0E20, 1.0E-4."""
    if isinstance(value, str):
        return value
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    digits = Decimal(_shortest_float(number) if type_["type"] == "FLOAT" else repr(number))
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(digits, "f")
        return text if "." in text else f"{text}.0"
    sign, figures, _ = digits.normalize().as_tuple()
    mantissa = "".join(str(figure) for figure in figures)
    return f"{'-' if sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{digits.adjusted()}"


def _shortest_float(number: float) -> str:
    """Return the shortest decimal text that denotes the same 32-bit float."""
    packed = struct.pack("f", number)
    texts = (f"{number:.{precision}g}" for precision in range(1, 10))
    return next((text for text in texts if struct.pack("f", float(text)) == packed), repr(number))


def _timestamp(value: Any, type_: TypeJson) -> str:
    moment, _, fraction = str(value).replace("T", " ").removesuffix("Z").partition(".")
    precision = type_.get("precision", 6)
    return f"{moment}.{fraction.ljust(precision, '0')[:precision]}" if precision else moment


def _interval(value: Any, type_: TypeJson) -> str:
    """Format a number of months as `+1-06`, or a number of milliseconds as `+1 02:03:04.005`."""
    sign, amount = "-" if value < 0 else "+", abs(int(value))
    if type_["type"] == "INTERVAL_YEAR_MONTH":
        years, months = divmod(amount, 12)
        return f"{sign}{years}-{months:02}"
    seconds, ms = divmod(amount, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{ms:03}"


def _nested(value: Any, type_: TypeJson) -> str:
    def text(item: Any, item_type: TypeJson) -> str:
        inner = plain(item, item_type)
        return NULL if inner is None else inner

    match type_["type"]:
        case "ARRAY":
            return "[" + ", ".join(text(item, type_["elementType"]) for item in value) + "]"
        case "MAP":
            return (
                "{"
                + ", ".join(f"{key}={text(item, type_['valueType'])}" for key, item in value.items())
                + "}"
            )
        case "MULTISET":
            return "{" + ", ".join(f"{key}={count}" for key, count in value.items()) + "}"
        case _:
            fields = [text(value.get(field["name"]), field["fieldType"]) for field in type_["fields"]]
            return "(" + ", ".join(fields) + ")"


# Values of any other type are written with str().
_WRITERS: Mapping[str, Callable[[Any, TypeJson], str]] = {
    "BOOLEAN": lambda value, _type: "TRUE" if value else "FALSE",
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": lambda value, type_: f"{Decimal(str(value)):.{type_.get('scale', 0)}f}",
    "BINARY": lambda value, _type: f"x'{base64.b64decode(value).hex()}'",
    "VARBINARY": lambda value, _type: f"x'{base64.b64decode(value).hex()}'",
    "TIMESTAMP_WITHOUT_TIME_ZONE": _timestamp,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _timestamp,
    "INTERVAL_DAY_TIME": _interval,
    "INTERVAL_YEAR_MONTH": _interval,
    "ARRAY": _nested,
    "MAP": _nested,
    "MULTISET": _nested,
    "ROW": _nested,
}
