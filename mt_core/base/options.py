"""Option values: accepted forms, parsing of durations and sizes, and suggestions for misspelled keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches

_IGNORE_CASE = re.ASCII | re.IGNORECASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The values that an option accepts.

    `name` is the form's name in docs and messages; `values` lists all values if they are a fixed set.
    """

    pattern: re.Pattern[str]
    name: str
    values: tuple[str, ...] = ()

    def accepts(self, text: str) -> bool:
        """Return whether *text* is a valid value, ignoring leading and trailing blanks."""
        return self.pattern.fullmatch(text.strip()) is not None


def one_of(*values: str) -> Form:
    """Return a form that accepts *values*, ignoring case."""
    pattern = re.compile("|".join(map(re.escape, values)), _IGNORE_CASE)
    return Form(pattern=pattern, name=" or ".join(values), values=values)


BOOLEAN = one_of("true", "false")
INTEGER = Form(pattern=re.compile(r"-?[0-9]{1,18}", re.ASCII), name="a whole number")
NUMBER = Form(pattern=re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII), name="a number")
TEXT = Form(pattern=re.compile(r".*", re.DOTALL), name="any text")

# Spark writes sizes and durations without a space; a negative size turns the option off.
SPARK_SIZE = Form(
    pattern=re.compile(r"-?[0-9]{1,18}\s*([kmgtp]?b?)", _IGNORE_CASE), name="a size such as 64MB"
)
SPARK_DURATION = Form(
    pattern=re.compile(r"[0-9]{1,9}\s*(ms|s|m|min|h|d)?", _IGNORE_CASE), name="a duration such as 300s"
)

_DAY_TO_MINUTE = "d|days?|h|hours?|m|min|minutes?"
_SECOND_TO_NANO = "s|secs?|seconds?|ms|millis?|milliseconds?|µs|micros?|microseconds?|ns|nanos?|nanoseconds?"
_FLINK_BYTES = "b|bytes|kb?|kibibytes|mb?|mebibytes|gb?|gibibytes|tb?|tebibytes"
FLINK_DURATION = Form(
    pattern=re.compile(rf"[0-9]{{1,18}}\s*({_DAY_TO_MINUTE}|{_SECOND_TO_NANO})?", re.IGNORECASE),
    name="a duration such as 30 min, 10 s or 500 ms",
)
FLINK_SIZE = Form(
    pattern=re.compile(rf"[0-9]{{1,18}}\s*({_FLINK_BYTES})?", _IGNORE_CASE), name="a size such as 64 mb"
)

_DURATION = re.compile(r"([0-9]{1,18})\s*([a-z]+)")
_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), timedelta(milliseconds=1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
}
_LONGEST = timedelta(days=36_500)
_SIZE = re.compile(r"([0-9]{1,12})\s*([a-z]*)")
_POWERS = {10: ("k", "kb"), 20: ("m", "mb"), 30: ("g", "gb"), 40: ("t", "tb")}
_BYTES = {"": 1, "b": 1, **{unit: 2**power for power, units in _POWERS.items() for unit in units}}


def duration_of(text: str) -> timedelta | None:
    """Parse a duration such as `30 min`.

    Returns None for any other string and for a duration of more than a century.
    """
    match = _DURATION.fullmatch("0 s" if text == "0" else text.lower())
    if not match or match[2] not in _UNITS or int(match[1]) > _LONGEST / _UNITS[match[2]]:
        return None
    return int(match[1]) * _UNITS[match[2]]


def flink_duration_of(text: str) -> timedelta | None:
    """Parse a duration as `duration_of` does, but read a bare number as milliseconds, as Flink does."""
    text = text.strip()
    return duration_of(f"{text} ms" if text.isdigit() else text)


def bytes_of(text: str) -> int | None:
    """Parse a size such as `64 mb` and return the number of bytes, or None for any other string."""
    match = _SIZE.fullmatch(text.lower())
    return int(match[1]) * _BYTES[match[2]] if match and match[2] in _BYTES else None


def suggestion(key: str, keys: Iterable[str], *, likeness: float) -> str:
    """Return `did you mean …?` with the one of *keys* that is most similar to *key*.

    The result is "" if the similarity of every key is below *likeness* (0 to 1).
    """
    near = get_close_matches(key, sorted(keys), n=1, cutoff=likeness)
    return f"did you mean {near[0]}?" if near else ""
