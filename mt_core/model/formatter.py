"""Date formatters: the partition values of a schedule time, and schedule times as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from functools import cache, lru_cache

from babel.core import Locale
from babel.dates import format_datetime

from mt_core.errors import DefinitionInvalid, RequestInvalid
from mt_core.model.cadence import Cadence
from mt_core.model.freshness import Freshness, before
from mt_core.model.partition import PartitionSpec
from mt_core.model.zone import instant_at, instants_at, zone_named

SCHEDULE_TIME_FORMAT = "yyyy-MM-dd HH:mm:ss"
# For each letter, the longest field that means the same in SimpleDateFormat and LDML; None: unlimited.
LONGEST_FIELDS: Mapping[str, int | None] = {"y": None, "M": 4, "d": 2, "H": 2, "m": 2, "s": 2, "S": None}
_TWO_DIGITS = {
    "M": "({zero}[1-9]|1[0-2])",
    "d": "({zero}[1-9]|[12][0-9]|3[01])",
    "H": "({zero}[0-9]|1[0-9]|2[0-3])",
    "m": "({zero}[0-9]|[1-5][0-9])",
    "s": "({zero}[0-9]|[1-5][0-9])",
}
_PARTS = re.compile(r"(?P<literal>'(?:[^']|'')*')|(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<quote>')")
_MICROSECOND = timedelta(microseconds=1)
_SCHEDULE_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}([+-]\d{2}:\d{2})?", re.ASCII)


def check_pattern(column: str, pattern: str) -> None:
    """Raise DefinitionInvalid unless this module formats *pattern* exactly like Java's SimpleDateFormat."""
    where = f"partition.fields.{column}.date-formatter: the pattern '{pattern}'"
    if not pattern:
        raise DefinitionInvalid(f"{where} is empty; write one such as yyyy-MM-dd.")
    for part in _PARTS.finditer(pattern):
        if part["quote"]:
            raise DefinitionInvalid(f"{where} has an unterminated quote; a quote itself is written ''.")
        if not part["field"]:
            continue
        letter = part["letter"]
        if letter not in LONGEST_FIELDS:
            raise DefinitionInvalid(
                f"{where} has the letter {letter}, which is not supported; "
                f"supported are {', '.join(LONGEST_FIELDS)}, and text in 'quotes'."
            )
        longest = LONGEST_FIELDS[letter]
        if longest is not None and len(part["field"]) > longest:
            raise DefinitionInvalid(
                f"{where} has {part['field']}; at most {longest} letters {letter} in a row are supported."
            )


def format_instant(instant: datetime, pattern: str, zone: str) -> str:
    """Format *instant* with a checked pattern, in the time zone *zone* and in English.

    *instant* must be a whole second.
    """
    return str(format_datetime(instant, pattern, tzinfo=zone_named(zone), locale=_english()))


@cache
def _english() -> Locale:
    # Looking up the locale by name takes longer than formatting.
    return Locale("en")


def is_formatted(text: str, pattern: str) -> bool:
    """Return whether *text* could be the result of formatting with *pattern*, which must be a checked one."""
    expression, place = "", 0
    for part in _PARTS.finditer(pattern):
        expression += re.escape(pattern[place : part.start()])
        place = part.end()
        letter, length = part["letter"], len(part["field"] or "")
        if letter is None:
            expression += re.escape(part["literal"][1:-1].replace("''", "'") or "'")
        elif letter == "y":
            expression += r"\d\d" if length == 2 else rf"\d{{{max(length, 4) if length > 1 else 1},}}"
        elif letter == "S":
            expression += rf"\d{{{length}}}"
        elif letter == "M" and length > 2:
            expression += "[A-Z][a-z]{2}" if length == 3 else "[A-Z][a-z]+"
        else:
            # A field of one letter has no leading zeros.
            expression += _TWO_DIGITS[letter].format(zero="0?" if length == 1 else "0")
    return re.fullmatch(expression + re.escape(pattern[place:]), text, re.ASCII) is not None


def partitions_of(
    schedule_time: datetime,
    cadence: Cadence,
    zone: str,
    formatters: Mapping[str, str],
    *,
    most: int | None = None,
) -> tuple[PartitionSpec, ...]:
    """Return the partitions of *schedule_time*, formatted for each column of *formatters*.

    With a freshness there is one partition, for schedule time - freshness. With a cron there is one for each
    distinguishable instant from the previous schedule time, inclusive, to this one, exclusive. If there are
    more than *most* partitions, the result is cut off but has more than *most*.
    """
    return _partitions_of(schedule_time, cadence, zone, tuple(formatters.items()), most)


# Successive refreshes compute the partitions of mostly the same schedule times, hundreds of them.
@lru_cache(maxsize=4_096)
def _partitions_of(
    schedule_time: datetime,
    cadence: Cadence,
    zone: str,
    formatters: tuple[tuple[str, str], ...],
    most: int | None,
) -> tuple[PartitionSpec, ...]:
    if isinstance(cadence, Freshness):
        instants: Iterable[datetime] = (before(schedule_time, cadence, zone),)
    else:
        start = cadence.grid(zone).at_or_before(schedule_time - _MICROSECOND)
        instants = _units_between(start, schedule_time, zone, "".join(pattern for _, pattern in formatters))
    specs = dict[PartitionSpec, None]()
    for instant in instants:
        specs[
            PartitionSpec.of(
                {column: format_instant(instant, pattern, zone) for column, pattern in formatters}
            )
        ] = None
        if most is not None and len(specs) > most:
            break
    return tuple(specs)


def _units_between(start: datetime, end: datetime, zone: str, pattern: str) -> Iterator[datetime]:
    """Yield *start*, then one instant for each later local unit before *end* that *pattern* distinguishes."""
    letters = {str(part["letter"]) for part in _PARTS.finditer(pattern) if part["letter"]}
    named = zone_named(zone)
    wall = start.astimezone(named).replace(tzinfo=None, fold=0)
    first, *second = instants_at(wall, named)
    if second and start < second[0]:
        # The clock will be set back to local times before this one.
        wall -= second[0] - first
    yield start
    while True:
        wall = _next_unit(wall, letters)
        occurrences = instants_at(wall, named)
        if occurrences[0] >= end:
            return
        if occurrences[-1] >= start:
            yield occurrences[0]


def _next_unit(wall: datetime, letters: set[str]) -> datetime:
    """Return the beginning of the next local unit: the shortest unit that *letters* name, or else a year."""
    if letters & {"s", "S"}:
        return wall + timedelta(seconds=1)
    if "m" in letters:
        return wall.replace(second=0) + timedelta(minutes=1)
    if "H" in letters:
        return wall.replace(minute=0, second=0) + timedelta(hours=1)
    midnight = datetime.combine(wall.date(), time())
    if "d" in letters:
        return midnight + timedelta(days=1)
    if "M" in letters:
        return (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
    return midnight.replace(year=wall.year + 1, month=1, day=1)


def parse_schedule_time(text: str, zone: str) -> datetime:
    """Parse a local `yyyy-MM-dd HH:mm:ss` and return the UTC instant.

    A local time that the zone skips means the first instant after the gap. A time that occurs twice means the
    first of the two, unless an offset such as +01:00 follows it. Raises RequestInvalid naming the field, text
    and format.
    """
    refusal = (
        f"scheduleTime: '{text}' cannot be read; write it as {SCHEDULE_TIME_FORMAT} in the time zone {zone}, "
        "for example 2026-01-31 00:00:00."
    )
    if not _SCHEDULE_TIME.fullmatch(text):
        raise RequestInvalid(refusal)
    try:
        wall = datetime.fromisoformat(text)
        return instant_at(wall, zone_named(zone)) if wall.tzinfo is None else wall.astimezone(UTC)
    except (ValueError, OverflowError) as cause:
        raise RequestInvalid(refusal) from cause


def show_schedule_time(instant: datetime, zone: str, *, exact: bool = False) -> str:
    """Format *instant* as local `yyyy-MM-dd HH:mm:ss` in the time zone *zone*.

    With *exact*, the UTC offset is appended if this is the second occurrence of the local time.
    """
    local = instant.astimezone(UTC).astimezone(zone_named(zone)).replace(microsecond=0)
    return (local if exact and local.fold else local.replace(tzinfo=None)).isoformat(sep=" ")
