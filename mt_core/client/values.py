"""Values of results as Python objects: from the JSON of a row to what its logical type means."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mt_core.rowset import Column, LogicalType

Convert = Callable[[Any], Any]
Rows = Sequence[Sequence[Any]]
ZONE_KEYS = ("spark.sql.session.timeZone", "table.local-time-zone")
LOCAL_TIMESTAMP = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
_EXACT = Context(prec=76)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


class UnreadableValue(ValueError):
    """A value that Python's types have no room for."""


def rows_converter(columns: Sequence[Column], zone: tzinfo | None) -> Callable[[Rows], Iterator[tuple[Any, ...]]]:
    """Return what makes tuples of Python objects of the rows of a page; it raises UnreadableValue.

    *zone* is the zone of the session, None if `needs_zone` says that no column needs it.
    """
    converts = [converter(column.type, zone) for column in columns]

    def convert_rows(rows: Rows) -> Iterator[tuple[Any, ...]]:
        # A column at a time, which is twice as fast as a row at a time.
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
            f"Column {name} has the value {str(value)[:60]!r}, which Python's type has no room for ({cause}); "
            "CAST it to STRING in the query."
        ) from cause


def needs_zone(columns: Sequence[Column]) -> bool:
    """Whether a column holds local timestamps, whose JSON is the wall clock of the session's zone."""
    return any(_holds_local_timestamps(column.type.to_json()) for column in columns)


def _holds_local_timestamps(body: Any) -> bool:
    match body:
        case {"type": kind} if kind == LOCAL_TIMESTAMP:
            return True
        case Mapping():
            return any(_holds_local_timestamps(part) for part in body.values())
        case list():
            return any(_holds_local_timestamps(part) for part in body)
        case _:
            return False


def session_zone(properties: Mapping[str, str]) -> tzinfo:
    """Return the zone of a session with *properties*; raises UnreadableValue for one that this machine does not know."""
    name = next((properties[key] for key in ZONE_KEYS if key in properties), "UTC")
    if found := _OFFSET.fullmatch(name):
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(offset if found[1] == "+" else -offset)
    if name.upper() in {"Z", "UTC"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as cause:
        raise UnreadableValue(
            f"The session's zone '{name}' is not known on this machine; install the package tzdata, "
            "or SET 'table.local-time-zone' to an IANA name."
        ) from cause


def converter(kind: LogicalType, zone: tzinfo | None) -> Convert:
    """Return what makes a Python object of a JSON value, not None, of the type *kind*."""
    match kind.root:
        case "DECIMAL":
            return _decimal(kind.extras["scale"])
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            return lambda text: datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=zone)
        case "ARRAY":
            return _list(_part(kind.extras["elementType"], zone))
        case "MAP":
            return _map(_part(kind.extras["valueType"], zone))
        case "ROW":
            return _row({field["name"]: _part(field["fieldType"], zone) for field in kind.extras["fields"]})
        case _:
            return _SCALARS.get(kind.root, _unchanged)


def _part(body: Mapping[str, Any], zone: tzinfo | None) -> Convert:
    convert = converter(LogicalType.from_json(body), zone)
    return convert if convert is _unchanged else lambda value: None if value is None else convert(value)


def numbers(kind: LogicalType) -> Convert:
    """Return what makes Decimals and floats of the numbers in a value, not None, of the type *kind*; all else stays JSON."""
    match kind.root:
        case "DECIMAL":
            return _decimal(kind.extras["scale"])
        case "FLOAT" | "DOUBLE":
            # NaN and the infinities are texts in JSON, and are shown as they are.
            return lambda value: value if isinstance(value, str) else float(value)
        case "ARRAY":
            return _list(_numbers_in(kind.extras["elementType"]))
        case "MAP":
            return _map(_numbers_in(kind.extras["valueType"]))
        case "ROW":
            return _row({field["name"]: _numbers_in(field["fieldType"]) for field in kind.extras["fields"]})
        case _:
            return _unchanged


def _numbers_in(body: Mapping[str, Any]) -> Convert:
    convert = numbers(LogicalType.from_json(body))
    return convert if convert is _unchanged else lambda value: None if value is None else convert(value)


def _unchanged(value: Any) -> Any:
    return value


def _decimal(scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)
    return lambda value: Decimal(value).quantize(unit, context=_EXACT)


def _list(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _map(convert: Convert) -> Convert:
    return lambda pairs: {key: convert(value) for key, value in pairs.items()}


def _row(converts: Mapping[str, Convert]) -> Convert:
    return lambda row: {name: convert(row[name]) for name, convert in converts.items()}


_SCALARS: dict[str, Convert] = {
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
