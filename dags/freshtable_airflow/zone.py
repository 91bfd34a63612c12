"""Time zones: the instants that a local time denotes, without I/O and identical to the gateway's."""

from __future__ import annotations

from calendar import timegm
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def zone_named(name: str) -> ZoneInfo:
    """Return the IANA time zone *name*; raise ValueError if it is unknown."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as cause:
        raise ValueError(
            f"'{name}' is not a known time zone; use an IANA name such as Europe/Berlin or UTC."
        ) from cause


def seconds_of(instant: datetime) -> int:
    """Return the number of whole seconds from 1970 to *instant*, rounded down."""
    # Not by subtraction, because Airflow passes pendulum instants, whose differences cannot be divided.
    return timegm(instant.utctimetuple())


def instant_of(seconds: int) -> datetime:
    """Return the UTC instant *seconds* after 1970."""
    return EPOCH + timedelta(seconds=seconds)


def offset_at(seconds: int, zone: ZoneInfo) -> int:
    """Return the offset of *zone* from UTC at an instant, in seconds."""
    offset = instant_of(seconds).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // SECOND


def transition_between(low: int, high: int, zone: ZoneInfo) -> int:
    """Return the first instant whose offset differs from the offset at *low*.

    The offset must change exactly once between *low* and *high*.
    """
    before = offset_at(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_at(middle, zone) == before else (low, middle)
    return high


def instant_at(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first UTC instant when clocks in *zone* show the local time *wall*.

    A time that a change to summer time skips means the first instant after the gap.
    """
    return instants_at(wall, zone)[0]


def instants_at(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Return the UTC instants when clocks in *zone* show *wall*: two if the clock is set back.

    A skipped time means the first instant after the gap.
    """
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return (first,)
    if first.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return (first, second)
    # In a gap, fold 0 uses the offset from before the gap, which results in an instant after it; fold 1 does
    # the reverse.
    return (instant_of(transition_between(seconds_of(second), seconds_of(first), zone)),)


def wall_clock(instant: datetime, zone: str) -> str:
    """Format *instant* as local `yyyy-MM-dd HH:mm:ss` in the time zone *zone*.

    The UTC offset is appended if this is the second occurrence of the local time.
    """
    local = instant.astimezone(UTC).astimezone(zone_named(zone)).replace(microsecond=0)
    return (local if local.fold else local.replace(tzinfo=None)).isoformat(sep=" ")
