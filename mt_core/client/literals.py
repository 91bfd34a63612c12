"""Python values as Spark SQL literals, and statements whose `?` markers are filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any
from uuid import UUID

from mt_core.base.plural import plural
from mt_core.base.tokens import Token, TokenKind, tokenize

MAX_DIGITS = 38
# The range of INTERVAL DAY TO SECOND, which stores microseconds in 64 bits.
MAX_INTERVAL = timedelta(microseconds=2**63 - 1)
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\0": "\\u0000", "\r": "\\r", "\n": "\\n", "\x1a": "\\Z"}


class UnknownType(TypeError):
    """A parameter has a Python type that has no literal."""


class OutOfRange(ValueError):
    """A parameter is outside the range of its SQL type."""


class ParameterCount(ValueError):
    """The numbers of `?` markers and of parameters differ."""


def fill_in(statement: str, parameters: Sequence[Any]) -> str:
    """Return *statement* with each `?` outside quotes and comments replaced by its parameter's literal.

    Raises SqlSyntaxError for an unterminated quote, ParameterCount, UnknownType and OutOfRange.
    """
    markers = find_markers(tokenize(statement))
    if len(markers) != len(parameters):
        raise ParameterCount(
            f"The statement has {len(markers)} {plural(len(markers), 'marker')} (?) and {len(parameters)} "
            f"{plural(len(parameters), 'parameter')}."
        )
    parts, offset = list[str](), 0
    for marker, value in zip(markers, parameters, strict=True):
        parts += [statement[offset : marker.start], literal(value)]
        offset = marker.end
    return "".join([*parts, statement[offset:]])


def find_markers(tokens: Iterable[Token]) -> list[Token]:
    """Return the `?` markers among *tokens*."""
    return [token for token in tokens if token.kind is TokenKind.SYMBOL and token.text == "?"]


def literal(value: Any) -> str:
    """Return the Spark SQL expression for *value*. Raises UnknownType and OutOfRange."""
    if value is None:
        return "NULL"
    if isinstance(value, (str, int)) or not isinstance(value, Enum):
        for kinds, render in _RENDERERS.items():
            if isinstance(value, kinds):
                text = render(value)
                # With parentheses, a negative number can follow a minus sign; without them, -- would start a
                # comment.
                return f"({text})" if text.startswith("-") else text
    names = ", ".join(kind.__name__ for kinds in _RENDERERS for kind in kinds)
    raise UnknownType(
        f"A parameter is a {type(value).__module__}.{type(value).__qualname__}; use None or one of: {names}."
    )


def _string(value: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise OutOfRange(
            f"The string {value[:40]!r} has a lone surrogate, which UTF-8 cannot encode; remove it."
        )
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in value)
    # Spark substitutes ${…} even inside quotes.
    return "'" + escaped.replace("${", "\\u0024{") + "'"


def _integer(value: int) -> str:
    digits = int.__repr__(value)
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise OutOfRange(
            f"The integer {digits[:12]}… has more than {MAX_DIGITS} digits; pass it as a string."
        )
    return digits


def _float(value: float) -> str:
    if isfinite(value):
        return f"{float.__repr__(value)}D"
    return f"CAST('{float.__repr__(value)}' AS DOUBLE)"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise OutOfRange(f"DECIMAL has no {value}; pass it as a float.")
    digits, exponent = len(value.as_tuple().digits), int(value.as_tuple().exponent)
    if max(digits + max(exponent, 0), -exponent) > MAX_DIGITS:
        raise OutOfRange(
            f"The decimal {value} has more than {MAX_DIGITS} digits; round it, or pass it as a float."
        )
    return f"{value:f}BD"


def _datetime(value: datetime) -> str:
    is_local = value.utcoffset() is None
    try:
        wall_clock = value if is_local else value.astimezone(UTC)
    except OverflowError as cause:
        raise OutOfRange(f"The datetime {value} is outside the years 1 to 9999 in UTC.") from cause
    text = wall_clock.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return f"TIMESTAMP_NTZ'{text}'" if is_local else f"TIMESTAMP_LTZ'{text}Z'"


def _time(value: time) -> str:
    if value.tzinfo is not None:
        raise OutOfRange(
            f"The time {value} has a zone, and TIME has none; remove it with replace(tzinfo=None)."
        )
    return f"TIME'{value.isoformat(timespec='microseconds')}'"


def _timedelta(value: timedelta) -> str:
    size = abs(value)
    if size > MAX_INTERVAL:
        raise OutOfRange(
            f"The timedelta {value} is longer than an INTERVAL DAY TO SECOND can be, {MAX_INTERVAL}."
        )
    minutes, seconds = divmod(size.seconds, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{size.microseconds:06}"
    return f"INTERVAL '{'-' if value < timedelta() else ''}{size.days} {clock}' DAY TO SECOND"


# The order matters, because a bool is an int, and a datetime is a date.
_RENDERERS: dict[tuple[type[Any], ...], Callable[[Any], str]] = {
    (bool,): lambda value: "TRUE" if value else "FALSE",
    (int,): _integer,
    (float,): _float,
    (Decimal,): _decimal,
    (str,): _string,
    (bytes, bytearray, memoryview): lambda value: f"X'{value.hex()}'",
    (datetime,): _datetime,
    (date,): lambda value: f"DATE'{value.isoformat()}'",
    (time,): _time,
    (timedelta,): _timedelta,
    (UUID,): lambda value: f"'{value}'",
    (list, tuple): lambda value: f"ARRAY({', '.join(map(literal, value))})",
    (dict,): lambda value: f"MAP({', '.join(literal(part) for item in value.items() for part in item)})",
}
