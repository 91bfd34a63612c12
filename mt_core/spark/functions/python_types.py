"""Conversion of Python type hints to Spark types."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

_TYPES: Mapping[object, str] = {
    bool: "BOOLEAN",
    bytearray: "BINARY",
    bytes: "BINARY",
    date: "DATE",
    datetime: "TIMESTAMP",
    Decimal: "DECIMAL(38,18)",
    float: "DOUBLE",
    int: "BIGINT",
    str: "STRING",
    timedelta: "INTERVAL DAY TO SECOND",
}


def spark_type(hint: Any) -> str | None:
    """Return the Spark type of a hint such as `int`, `str | None` or `list[int]`, or None for other hints."""
    try:
        simple = _TYPES.get(hint)
    except TypeError:
        # A hint can be any object, even an unhashable one such as a list.
        return None
    if simple is not None:
        return simple
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        not_none = [each for each in arguments if each is not types.NoneType]
        return spark_type(not_none[0]) if len(not_none) == 1 else None
    inner = [spark_type(each) for each in arguments]
    if None in inner:
        return None
    if origin is list and len(inner) == 1:
        return f"ARRAY<{inner[0]}>"
    if origin is dict and len(inner) == 2:
        return f"MAP<{inner[0]}, {inner[1]}>"
    return None
