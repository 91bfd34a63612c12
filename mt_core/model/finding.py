"""Findings of installation checks: the result for one subject, and how to fix a problem."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

MOST_SKEW = timedelta(seconds=5)
# The HTTP header `Date` has a resolution of one second.
_RESOLUTION = timedelta(seconds=1)


class Level(StrEnum):
    """The severity of a finding.

    OK: as required. NOTE: worth knowing, but not a problem. PROBLEM: a gateway does not start or does not
    work.
    """

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of checking one subject, such as `java`.

    `way_out` is the command or change that fixes the problem, or "".
    """

    subject: str
    level: Level
    text: str
    way_out: str = ""

    @classmethod
    def ok(cls, subject: str, text: str) -> Finding:
        return cls(subject=subject, level=Level.OK, text=text)

    @classmethod
    def note(cls, subject: str, text: str, way_out: str = "") -> Finding:
        return cls(subject=subject, level=Level.NOTE, text=text, way_out=way_out)

    @classmethod
    def problem(cls, subject: str, text: str, way_out: str) -> Finding:
        return cls(subject=subject, level=Level.PROBLEM, text=text, way_out=way_out)


def clock_finding(whose: str, date: str | None, sent: datetime, received: datetime) -> Finding:
    """Compare the clock of *whose* with this machine's, using the HTTP header *date* of its response.

    *sent* and *received* are the times of the request and the response on this machine's clock.
    """
    subject, their_time = "clock", _instant(date)
    if their_time is None:
        return Finding.note(subject, f"{whose} does not report its time")
    ahead, behind = their_time - received, sent - (their_time + _RESOLUTION)
    skew = max(ahead, behind)
    if skew <= MOST_SKEW:
        return Finding.ok(subject, f"agrees with the clock of {whose}")
    direction = "ahead of" if ahead > behind else "behind"
    return Finding.problem(
        subject,
        f"the clock of {whose} is {round(skew.total_seconds())} s {direction} this machine's, "
        "and schedule times depend on the clock",
        "timedatectl set-ntp true, on both machines",
    )


def _instant(date: str | None) -> datetime | None:
    try:
        return None if date is None else parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        return None
