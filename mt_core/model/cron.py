"""Cron: a schedule given by a cron expression of five fields, and its schedule times in a time zone.

The problem: cron dialects look alike but differ, and none of them defines what happens when the clock is set
forward or back. The idea: an expression is accepted only if POSIX, Vixie's cron, Airflow and croniter all
derive the same schedule times from it. Any other expression is refused, with the unambiguous form in the
message. croniter computes in local time, without a zone, and `zone.py` maps each local time to the instants
that it denotes. A skipped local time means the first instant after the gap, so several skipped times become
one schedule time. A local time that occurs twice counts only the first time, unless the hour field begins
with `*`: such a schedule runs throughout the day and includes both.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

from mt_core.base.plural import plural
from mt_core.errors import DefinitionInvalid
from mt_core.model.zone import instant_at, instants_at, zone_named

KEY = "SCHEDULE CRON"
FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
# February 29 has the longest gap between two occurrences: from 2096 to 2104.
LONGEST_GAP_YEARS = 9
_CHECKED_FROM = datetime.fromisoformat("2024-03-01")
_SECOND = timedelta(seconds=1)
_NAMES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    (),
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
)
_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_ALIASES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_ITEM = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[0-9]+))?", re.ASCII)
_NUMBER = re.compile("[0-9]{1,2}")
_FOREIGN = re.compile("[0-9]*(?P<letter>[#LWHR])[^A-Z]*|(?P<both>L)W")
_DIALECTS = {
    "#": (
        "the 5 of 5#2 is Thursday in Quartz and Friday elsewhere; "
        "write days of the month and * for the weekday, or name each weekday"
    ),
    "L": "not every cron has L, the last day; write a day of the month",
    "W": "not every cron has W, the nearest working day; write days of the week",
    "H": "H is a time that Jenkins draws; write the time",
    "R": "R is a time that is drawn again at each start; write the time",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression, normalized to single blanks and upper-case names.

    Raises DefinitionInvalid for an expression that dialects interpret differently; the message says what to
    write.
    """

    expression: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "expression", " ".join(self.expression.upper().split()))
        fields = self.expression.split(" ")
        if len(fields) != len(FIELDS) or "?" in self.expression:
            raise self._foreign(fields)
        for number, text in enumerate(fields):
            for item in text.split(","):
                self._check(number, item)
            if text != "*" and {"*", "*/1"} & set(text.split(",")):
                raise self._refused(f"{text} in the field {FIELDS[number]} is all values", "write *")
        self._check_days(*fields)
        if _local_after(self.expression, _CHECKED_FROM) is None:
            raise self._refused("no date fits it", "correct the day of the month or the month")

    @property
    def words(self) -> str:
        """The expression as text for messages."""
        return self.expression

    @property
    def every(self) -> str:
        """The frequency as text for messages, such as `by cron 0 * * * *`."""
        return f"by cron {self.words}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about expressions that users are likely to misread."""
        _, _, day, _, weekday = self.expression.split(" ")
        if "*" in (day, weekday):
            return ()
        return (
            f"{KEY} '{self.expression}' names days of the month and days of the week: "
            "a day that is one of either is due, as in POSIX and in Airflow.",
        )

    def grid(self, zone: str) -> CronGrid:
        """Return the schedule times in the IANA zone *zone*; raise DefinitionInvalid for an unknown zone."""
        return CronGrid(self.expression, zone_named(zone))

    def __str__(self) -> str:
        return f"CRON '{self.expression}'"

    def _check(self, number: int, item: str) -> None:
        names, (lowest, highest) = _NAMES[number], _LIMITS[number]
        match = _ITEM.fullmatch(item)
        values = (match["first"], match["last"]) if match else (item,)
        for value in values:
            if (
                value is None
                or value in names
                or (_NUMBER.fullmatch(value) and lowest <= int(value) <= highest)
            ):
                continue
            foreign = _FOREIGN.fullmatch(value)
            allowed = f"{lowest} to {highest}" + (f", {names[0]} to {names[-1]}" if names else "")
            way_out = f"write *, or a list of {allowed}, their ranges and steps"
            if foreign:
                way_out = _DIALECTS[foreign["letter"] or foreign["both"]]
            raise self._refused(f"{item} is not valid in the field {FIELDS[number]}", way_out)
        if match is None or (match["first"] is None and not match["step"]):
            return
        if match["step"] and not 0 < int(match["step"]) <= highest:
            raise self._refused(
                f"{item} is not valid in the field {FIELDS[number]}", f"write a step from 1 to {highest}"
            )
        if match["first"] and match["last"] is None and match["step"]:
            first = int(match["first"]) if match["first"].isdigit() else highest
            raise self._refused(
                f"not every cron begins the steps of {item} at {match['first']}",
                f"write {first}-{highest}/{match['step']}"
                if first < highest
                else "write a list of its values",
            )
        if match["last"] and _number_of(names, match["first"]) >= _last_of(number, names, match["last"]):
            # Implementations read such a range as the whole cycle, as empty, or as one that wraps around.
            raise self._refused(
                f"the range {item} does not end after its beginning", "write a list of its values"
            )

    def _check_days(self, _minute: str, _hour: str, day: str, _month: str, weekday: str) -> None:
        """Refuse `*/n` in one field of days if the other is restricted too.

        Vixie's cron then runs on days that match both fields, croniter on days that match either.
        """
        for starred, other in ((day, weekday), (weekday, day)):
            if starred.startswith("*") and starred != "*" and other != "*":
                raise self._refused(
                    f"some crons run on days that match both {starred} and {other}, "
                    "others on days that match either",
                    f"write the days of {starred} as a list, or * for one of the two fields",
                )
            if starred != "*" and other != "*" and _is_all(self.expression, starred):
                # Vixie's cron runs on days that match either field, so every day is due; croniter uses only
                # the other field.
                raise self._refused(f"{starred} is every day", f"write * for it, or for {other}")

    def _foreign(self, fields: list[str]) -> DefinitionInvalid:
        """Return the error for an expression of another dialect.

        Its message contains the equivalent five-field expression if that is certain.
        """
        five_fields, count = _five_fields(self.expression, fields), len(fields) if self.expression else 0
        what = (
            "? is Quartz syntax"
            if count == len(FIELDS)
            else f"it has {count} {plural(count, 'field')}, not 5"
        )
        return self._refused(
            what,
            f"write '{five_fields}'"
            if five_fields
            else (
                "write minute, hour, day of the month, month and day of the week (a name, or 0 for Sunday), "
                "with no seconds, no years and * for any"
            ),
        )

    def _refused(self, what: str, way_out: str) -> DefinitionInvalid:
        return DefinitionInvalid(
            f"{KEY} '{self.expression}': {what}; {way_out}.", key=KEY, value=self.expression
        )


def _is_all(expression: str, field: str) -> bool:
    """Return whether *field*, the text of one of the two fields of days, matches all values."""
    number = expression.split(" ").index(field, 2)
    values = _parsed(expression).expanded[number]
    return values == ["*"] or len(values) == (31 if number == 2 else 7)


def _number_of(names: tuple[str, ...], value: str) -> int:
    """Return the number of a field's value: months count from 1, days of the week from 0."""
    return names.index(value) + (len(names) == len(_NAMES[3])) if value in names else int(value)


def _last_of(field: int, names: tuple[str, ...], value: str) -> int:
    """Return the number of the last value of a range, where Sunday counts as 7."""
    number = _number_of(names, value)
    return 7 if field == len(FIELDS) - 1 and number == 0 else number


def _five_fields(expression: str, fields: list[str]) -> str | None:
    """Return the equivalent five-field expression, or None if it is not certain.

    Quartz expressions begin with seconds and count weekdays from 1, so numeric weekdays are ambiguous.
    """
    if expression in _ALIASES:
        return _ALIASES[expression]
    if len(fields) == len(FIELDS):
        five = fields
    elif fields[0] == "0" and (len(fields) == 6 or (len(fields) == 7 and fields[6] in ("*", "?"))):
        five = fields[1:6]
    else:
        return None
    if re.search("[0-9]", five[4]):
        return None
    try:
        return Cron(" ".join(five).replace("?", "*")).expression
    except DefinitionInvalid:
        return None


@dataclass(frozen=True, slots=True)
class CronGrid:
    """The schedule times of a valid expression in a time zone: an endless sequence of aware UTC datetimes."""

    expression: str
    zone: ZoneInfo

    def after(self, instant: datetime) -> datetime:
        """Return the first schedule time later than *instant*."""
        wall = self._wall(instant)
        local = self._local_after(wall)
        while (point := instant_at(local, self.zone)) <= instant:
            local = self._local_after(local)
        occurrences = instants_at(wall, self.zone)
        if len(occurrences) == 1 or not self._takes_both:
            return point
        # This local time occurs twice. Before its second occurrence, search from the beginning of the
        # repeated period, which lies no further back than the clock is set. After it, search from *wall*.
        first, second = occurrences
        local = self._local_after(wall if instant >= second else wall - (second - first))
        while local <= wall and len(instants_at(local, self.zone)) == 1:
            local = self._local_after(local)
        return min(point, instants_at(local, self.zone)[-1])

    def at_or_before(self, instant: datetime) -> datetime:
        """Return the last schedule time that is not later than *instant*."""
        wall = self._wall(instant)
        local = self._local_at_or_before(wall)
        occurrences = instants_at(local, self.zone)
        points = (
            [point for point in occurrences if point <= instant] if self._takes_both else [occurrences[0]]
        )
        first, *second = instants_at(wall, self.zone)
        if second and instant >= second[0]:
            # In the second pass, local times later than *wall* have already occurred once too.
            local = self._local_at_or_before(wall + (second[0] - first))
            while local > wall and len(instants_at(local, self.zone)) == 1:
                local = self._local_at_or_before(local - _SECOND)
            points.append(instant_at(local, self.zone))
        return max(points)

    @property
    def _takes_both(self) -> bool:
        return self.expression.split(" ")[1].startswith("*")

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self.zone).replace(tzinfo=None, fold=0, microsecond=0)

    def _local_after(self, wall: datetime) -> datetime:
        local = _local_after(self.expression, wall)
        assert local is not None, "an expression without a date is refused"
        return local

    def _local_at_or_before(self, wall: datetime) -> datetime:
        return _local_at_or_before(self.expression, wall)


@cache
def _parsed(expression: str) -> croniter:
    """Return croniter's parsed expression; callers must copy it, because iterating changes it."""
    return croniter(expression, _CHECKED_FROM, max_years_between_matches=LONGEST_GAP_YEARS)


# Each refresh computes hundreds of schedule times, and the previous refresh already computed nearly all of
# them.
@lru_cache(maxsize=4_096)
def _local_after(expression: str, wall: datetime) -> datetime | None:
    """Return the first local time later than *wall* that matches, or None if none does within nine years."""
    iterator = copy.copy(_parsed(expression))
    iterator.set_current(wall, force=True)
    try:
        return iterator.get_next(datetime)
    except CroniterBadDateError:
        return None


@lru_cache(maxsize=4_096)
def _local_at_or_before(expression: str, wall: datetime) -> datetime:
    iterator = copy.copy(_parsed(expression))
    iterator.set_current(wall + _SECOND, force=True)
    return iterator.get_prev(datetime)
