"""State TTLs as text: formatted in the largest exact unit, parsed from Flink's units or ISO-8601."""

from __future__ import annotations

import re
from datetime import timedelta

from mt_core.base.options import FLINK_DURATION, flink_duration_of

FOR_EVER = timedelta(days=36_500)
"""The TTL for 0 (for ever): it is finite, so that a stream with a shorter TTL can later read the state."""
EXPECTED = (
    f"{FLINK_DURATION.name}, one of ISO-8601 such as PT1H, from 1 ms to {FOR_EVER.days} d, or 0 for ever"
)
_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)
_ISO = re.compile(
    r"P(?:(?P<days>[0-9]{1,6})D)?(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?"
    r"(?:(?P<seconds>[0-9]{1,12}(?:\.[0-9]{1,3})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


def ttl_text(ttl: timedelta) -> str:
    """Format *ttl*, in whole milliseconds, as plans do, such as `1 h`; `0 ms` means forever."""
    if ttl >= FOR_EVER:
        return "0 ms"
    unit, length = next((name, length) for name, length in _UNITS if not ttl % length)
    return f"{ttl // length} {unit}"


def ttl_of(text: str) -> timedelta | None:
    """Parse a TTL: FOR_EVER for 0, and None if *text* is invalid or exceeds 100 years."""
    ttl = _iso_duration(text.strip()) if text.strip()[:1] in {"P", "p"} else flink_duration_of(text)
    return None if ttl is None or ttl > FOR_EVER else ttl or FOR_EVER


def _iso_duration(text: str) -> timedelta | None:
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    return timedelta(**{unit: float(number) for unit, number in match.groupdict(default="0").items()})
