from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from mt_core.errors import DefinitionInvalid
from mt_core.model.cron import Cron
from tests.depth import rounds

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "cron.json").read_text())
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Asia/Beirut", "UTC")
EXPRESSIONS = (
    "*/10 * * * *",
    "30 2 * * *",
    "30 * * * *",
    "0 0 * * *",
    "0 6 * * MON-FRI",
    "15 */2 * * *",
    "45 1,2,3 * * SUN",
    "0-59/7 2 * * *",
    "0 0 13 * FRI",
    "30 * 25 10 *",
    "0 0,1,22,23 * * 1,5-7",
)
MINUTE = timedelta(minutes=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# ----------------------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: " ".join(str(value) for value in case.values()))
def test_a_cron_has_the_points_that_airflow_is_given(case: dict[str, Any]) -> None:
    grid = Cron(case["cron"]).grid(case["zone"])

    assert grid.after(utc(case["instant"][:-1])) == utc(case["after"][:-1])
    assert grid.at_or_before(utc(case["instant"][:-1])) == utc(case["at_or_before"][:-1])


def test_a_local_time_that_is_skipped_means_the_first_instant_after_the_gap_several_one_point() -> None:
    once, often = Cron("30 2 * * *").grid("Europe/Berlin"), Cron("*/20 2 * * *").grid("Europe/Berlin")

    assert once.after(utc("2026-03-28T12:00")) == utc("2026-03-29T01:00")
    assert often.after(utc("2026-03-28T12:00")) == utc("2026-03-29T01:00")
    assert often.after(utc("2026-03-29T01:00")) == utc("2026-03-30T00:00")


def test_a_local_time_that_occurs_twice_counts_once_unless_the_hour_field_begins_with_a_star() -> None:
    night, hourly = Cron("30 2 * * *").grid("Europe/Berlin"), Cron("30 * * * *").grid("Europe/Berlin")

    assert night.after(utc("2026-10-24T12:00")) == utc("2026-10-25T00:30")
    assert night.after(utc("2026-10-25T00:30")) == utc("2026-10-26T01:30")
    assert hourly.after(utc("2026-10-25T00:30")) == utc("2026-10-25T01:30")
    assert hourly.at_or_before(utc("2026-10-25T01:29")) == utc("2026-10-25T00:30")


def minutes_of(
    zone: ZoneInfo, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, bool, list[datetime]]]:
    """Yield each minute with its wall clock, whether that is shown for the second time,
    and the ones skipped before it.
    """
    instant, last = start, None
    while instant < end:
        local = instant.astimezone(zone)
        wall, skipped = local.replace(tzinfo=None, fold=0), list[datetime]()
        while last is not None and (last := last + MINUTE) < wall:
            skipped.append(last)
        yield instant, wall, bool(local.fold), skipped
        instant, last = instant + MINUTE, wall


NAMES = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


def values_of(text: str, lowest: int, count: int) -> frozenset[int]:
    """Return the values of a field, by a reading that shares nothing with croniter."""
    values = set[int]()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = ("", "", "") if span == "*" else span.partition("-")
        low = lowest if span == "*" else int(NAMES.get(first, first))
        high = lowest + count - 1 if span == "*" else int(NAMES.get(last or first, last or first))
        values |= {
            (value - lowest) % count + lowest
            for value in range(low, high + 1 + count * (high < low), int(step or 1))
        }
    return frozenset(values)


@cache
def fields_of(expression: str) -> tuple[frozenset[int], ...]:
    return tuple(map(values_of, expression.split(" "), (0, 0, 1, 1, 0), (60, 24, 31, 12, 7)))


def fits(expression: str, wall: datetime) -> bool:
    minutes, hours, days, months, weekdays = fields_of(expression)
    if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
        return False
    day, weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
    return day or weekday if len(days) < 31 and len(weekdays) < 7 else day and weekday


def check_against_the_minutes(zone: str, start: datetime, end: datetime, probe: timedelta) -> int:
    """Compare the points with those of a scan minute by minute; return how many instants were compared."""
    points: dict[str, list[datetime]] = {expression: [] for expression in EXPRESSIONS}
    for instant, wall, again, skipped in minutes_of(ZoneInfo(zone), start, end):
        for expression, found in points.items():
            takes_both = expression.split(" ")[1].startswith("*")
            if (fits(expression, wall) and (takes_both or not again)) or any(
                fits(expression, at) for at in skipped
            ):
                found.append(instant)
    compared = 0
    for expression, found in points.items():
        grid, instant = Cron(expression).grid(zone), start
        while found and instant < end:
            place = bisect_right(found, instant)
            if 0 < place < len(found):
                near = f"{expression} in {zone} around {instant}"
                assert (grid.at_or_before(instant), grid.after(instant), near) == (
                    found[place - 1],
                    found[place],
                    near,
                )
                compared += 1
            instant += probe
    return compared


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "change", ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01"]
)
def test_around_changes_of_the_clock_the_points_are_those_of_a_scan_of_all_minutes(
    zone: str, change: str
) -> None:
    start = utc(change) - timedelta(hours=18)

    assert (
        check_against_the_minutes(zone, start, start + timedelta(days=2), timedelta(minutes=29, seconds=13))
        > 300
    )


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_any_minute_of_generated_years_has_the_points_of_a_scan(zone: str) -> None:
    end = utc("2024-03-01") + timedelta(days=rounds(40, 183))

    assert check_against_the_minutes(zone, utc("2024-03-01"), end, timedelta(hours=5, minutes=7)) > 1_000


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_without_changes_of_the_clock_the_points_are_those_of_another_library(expression: str) -> None:
    grid, point = Cron(expression).grid("Asia/Kolkata"), utc("2026-01-01T00:00")
    theirs = CronSim(expression, point.astimezone(ZoneInfo("Asia/Kolkata")))

    for _ in range(200):
        earlier, point = point, grid.after(point)
        assert point == next(theirs)
        assert grid.at_or_before(point - timedelta(seconds=1)) in (earlier, grid.at_or_before(earlier))


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 0 6 ? * MON-FRI", "it has 6 fields, not 5; write '0 6 * * MON-FRI'"),
        ("0 0 6 * * ? *", "it has 7 fields, not 5; write '0 6 * * *'"),
        # Quartz's 2-6 are Monday to Friday, others read Tuesday to Saturday in it.
        (
            "0 0 6 ? * 2-6",
            "it has 6 fields, not 5; write minute, hour, day of the month, month and day of the week",
        ),
        ("0 12 ? * MON", "? is Quartz syntax; write '0 12 * * MON'"),
        ("@daily", "it has 1 field, not 5; write '0 0 * * *'"),
        ("", "it has 0 fields, not 5"),
        ("0 0 L * *", "L is not valid in the field day of the month; not every cron has L"),
        ("0 0 15W * *", "15W is not valid in the field day of the month; not every cron has W"),
        ("0 0 * * 5#2", "the 5 of 5#2 is Thursday in Quartz and Friday elsewhere"),
        ("H(0-7) 2 * * *", "H is a time that Jenkins draws"),
        ("R 2 * * *", "R is a time that is drawn again at each start"),
        (
            "*/5 * */2 * MON",
            "some crons run on days that match both */2 and MON, others on days that match either",
        ),
        ("0 0 1 * */2", "some crons run on days that match both */2 and 1, others on days that match either"),
        ("0 0 30 2 *", "no date fits it"),
        ("0 6 * * MON-MON", "the range MON-MON does not end after its beginning; write a list of its values"),
        ("0 22-2 * * *", "the range 22-2 does not end after its beginning"),
        ("0 0 * DEC-JAN *", "the range DEC-JAN does not end after its beginning"),
        ("5/15 * * * *", "not every cron begins the steps of 5/15 at 5; write 5-59/15"),
        ("59/15 * * * *", "write a list of its values"),
        ("0 0 16,* * 1", "16,* in the field day of the month is all values; write *"),
        ("0 *,5 * * *", "*,5 in the field hour is all values; write *"),
        ("*/1 * * * *", "*/1 in the field minute is all values; write *"),
        ("0 0 1 * 0-6", "0-6 is every day; write * for it, or for 1"),
        ("0 0 1-31 * FRI", "1-31 is every day; write * for it, or for FRI"),
        (
            "61 * * * *",
            "61 is not valid in the field minute; write *, or a list of 0 to 59, their ranges and steps",
        ),
        ("*/0 * * * *", "*/0 is not valid in the field minute; write a step from 1 to 59"),
        ("0 0 * * MON-FRIDAY", "write *, or a list of 0 to 7, SUN to SAT, their ranges and steps"),
        ("1-2-3 * * * *", "1-2-3 is not valid in the field minute"),
        ("٣ * * * *", "٣ is not valid in the field minute"),
    ],
)
def test_an_expression_that_is_read_in_several_ways_or_never_due_is_refused(
    expression: str, message: str
) -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        Cron(expression)

    assert message in str(caught.value)
    assert f"SCHEDULE CRON '{expression.upper()}'" in str(caught.value)


def test_an_expression_is_stored_with_single_blanks_and_capitals() -> None:
    cron = Cron("  0 6\t*  * mon-fri ")

    assert (cron.expression, str(cron)) == ("0 6 * * MON-FRI", "CRON '0 6 * * MON-FRI'")


def test_days_of_both_kinds_are_due_on_either_with_a_warning() -> None:
    cron = Cron("0 0 13 * FRI")

    assert cron.warnings == (
        "SCHEDULE CRON '0 0 13 * FRI' names days of the month and days of the week: "
        "a day that is one of either is due, as in POSIX and in Airflow.",
    )
    assert cron.grid("UTC").after(utc("2026-06-12T00:00")) == utc("2026-06-13T00:00")
    assert Cron("0 6 * * MON").warnings == ()


def test_a_leap_day_is_due_again_after_eight_years() -> None:
    assert Cron("0 0 29 2 *").grid("UTC").after(utc("2096-03-01T00:00")) == utc("2104-02-29T00:00")


def test_a_zone_that_is_not_known_is_named() -> None:
    with pytest.raises(DefinitionInvalid, match="Europe/Atlantis"):
        Cron("0 6 * * *").grid("Europe/Atlantis")
