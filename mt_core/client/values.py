"""Result values as Python objects: converts JSON values according to their logical types."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mt_core.base.rowset import Column, LogicalType

Convert = Callable[[Any], Any]
Rows = Sequence[Sequence[Any]]
ZONE_KEYS = ("spark.sql.session.timeZone", "table.local-time-zone")
LOCAL_TIMESTAMP = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
_EXACT = Context(prec=76)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


class UnreadableValue(ValueError):
    """A value that Python's types cannot represent."""


def rows_converter(
    columns: Sequence[Column], zone: tzinfo | None
) -> Callable[[Rows], Iterator[tuple[Any, ...]]]:
    """Return a function that converts the rows of a page to tuples of Python objects.

    The function raises UnreadableValue. *zone* is the result of `zone_for` for *columns*.
    """
    scalars: dict[str, Convert] = {
        **_OBJECTS,
        LOCAL_TIMESTAMP: lambda text: datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=zone),
    }
    converts = [converter(column.type, scalars) for column in columns]

    def convert_rows(rows: Rows) -> Iterator[tuple[Any, ...]]:
        # Converting by column is twice as fast as converting by row.
        if not rows:
            return iter(())
        parts = zip(columns, converts, zip(*rows, strict=True), strict=True)
        return zip(*(_column(column.name, convert, values) for column, convert, values in parts), strict=True)

    return convert_rows


def _column(name: str, convert: Convert, values: Sequence[Any]) -> Sequence[Any]:
    if convert is _unchanged:
        return values
    value = None
    try:
        return [None if (value := each) is None else convert(each) for each in values]
    except (ValueError, OverflowError, ArithmeticError) as cause:
        raise UnreadableValue(
            f"Column {name} has the value {str(value)[:60]!r}, which Python's type cannot represent "
            f"({cause}); CAST it to STRING in the query."
        ) from cause


def zone_for(columns: Sequence[Column], properties: Callable[[], Mapping[str, str]]) -> tzinfo | None:
    """Return the session time zone if a column contains local timestamps, or None.

    JSON shows local timestamps as wall clock times. *properties* returns those of the session. Raises
    UnreadableValue for a zone that is unknown on this machine.
    """
    if not any(column.type.contains(LOCAL_TIMESTAMP) for column in columns):
        return None
    effective = properties()
    name = next((effective[key] for key in ZONE_KEYS if key in effective), "UTC")
    if match := _OFFSET.fullmatch(name):
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(offset if match[1] == "+" else -offset)
    if name.upper() in {"Z", "UTC"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as cause:
        raise UnreadableValue(
            f"The session's zone '{name}' is unknown on this machine; install the package tzdata, "
            "or SET 'table.local-time-zone' to an IANA name."
        ) from cause


def converter(kind: LogicalType, scalars: Mapping[str, Convert]) -> Convert:
    """Return a function that converts a non-null JSON value of type *kind* to a Python object.

    *scalars* maps type roots to the converters of scalar values. DECIMAL becomes Decimal; all other values
    are unchanged.
    """
    parts = {name: _nullable(converter(part, scalars)) for name, part in kind.parts}
    match kind.root:
        case "ARRAY":
            convert = parts["element"]
            return lambda values: [convert(value) for value in values]
        case "MAP":
            convert = parts["value"]
            return lambda pairs: {key: convert(value) for key, value in pairs.items()}
        case "ROW":
            return lambda row: {name: convert(row[name]) for name, convert in parts.items()}
        case "DECIMAL":
            unit = Decimal(1).scaleb(-kind.extras["scale"])
            return lambda value: Decimal(value).quantize(unit, context=_EXACT)
        case root:
            return scalars.get(root, _unchanged)


def _nullable(convert: Convert) -> Convert:
    return convert if convert is _unchanged else lambda value: None if value is None else convert(value)


def _unchanged(value: Any) -> Any:
    return value


_OBJECTS: dict[str, Convert] = {
    "FLOAT": float,
    "DOUBLE": float,
    "BINARY": b64decode,
    "VARBINARY": b64decode,
    "DATE": date.fromisoformat,
    "TIME_WITHOUT_TIME_ZONE": time.fromisoformat,
    "TIMESTAMP_WITHOUT_TIME_ZONE": datetime.fromisoformat,
    "TIMESTAMP_WITH_TIME_ZONE": datetime.fromisoformat,
    "INTERVAL_DAY_TIME": lambda milliseconds: timedelta(milliseconds=milliseconds),
}
# NaN and infinities are strings in JSON, and are shown unchanged.
FLOATS: dict[str, Convert] = dict.fromkeys(
    ("FLOAT", "DOUBLE"), lambda value: value if isinstance(value, str) else float(value)
)
