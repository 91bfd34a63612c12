import json
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.errors import DefinitionInvalid
from mt_core.model.freshness import Freshness, FreshnessUnit, before, cron_of, grid_of
from mt_core.model.zone import instant_at
from tests.support.grid_points import points_between

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "grid.json").read_text())
ZONES = ["Europe/Berlin", "America/Santiago", "Asia/Kolkata", "America/St_Johns", "Asia/Beirut", "UTC"]
FRESHNESSES = [
    *(Freshness(n, "SECOND") for n in (1, 20, 30, 45, 60, 3600, 86400)),
    *(Freshness(n, "MINUTE") for n in (1, 5, 7, 20, 30, 90, 120)),
    *(Freshness(n, "HOUR") for n in (1, 2, 3, 4, 5, 6, 8, 12, 24, 36)),
    *(Freshness(n, "DAY") for n in (1, 2, 3, 7, 30)),
    *(Freshness(n, "WEEK") for n in (1, 2)),
]
# Around the changes of the clock in 2026 of the zones above, and anywhere else in a century.
CHANGES = [
    "2026-03-29T01",
    "2026-10-25T01",
    "2026-09-06T04",
    "2026-04-05T03",
    "2026-03-08T06",
    "2026-11-01T05",
]
INSTANTS = st.one_of(
    st.floats(157_766_400, 3_313_526_400).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    st.builds(
        lambda change, offset: (
            datetime.fromisoformat(change).replace(tzinfo=UTC) + timedelta(microseconds=offset)
        ),
        st.sampled_from(CHANGES),
        st.integers(-40 * 3_600 * 10**6, 40 * 3_600 * 10**6),
    ),
)


# No change of the clock in the century of INSTANTS.
STEADY_ZONES = ["UTC", "Asia/Kolkata", "America/Phoenix", "Africa/Lagos"]
MINUTE = timedelta(minutes=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def after_each(freshness: Freshness, zone: str, start: str, count: int) -> list[str]:
    point, found = utc(start), []
    for _ in range(count):
        point = grid_of(freshness, zone).after(point)
        found.append(point.strftime("%dT%H:%M"))
    return found


# -------------------------------------------------------------------------------------------------- freshness


@pytest.mark.parametrize("unit", list(FreshnessUnit))
def test_freshness_prints_as_it_was_declared(unit: FreshnessUnit) -> None:
    assert str(Freshness(3, unit.value)) == f"INTERVAL '3' {unit.value}"


@pytest.mark.parametrize(
    ("freshness", "seconds", "days"),
    [
        (Freshness(20, "SECOND"), 20, None),
        (Freshness(90, "MINUTE"), 5_400, None),
        (Freshness(24, "HOUR"), 86_400, 1),
        (Freshness(2, "DAY"), 172_800, 2),
        (Freshness(amount=1, unit="WEEK"), 604_800, 7),
    ],
)
def test_freshness_has_a_length(freshness: Freshness, seconds: int, days: int | None) -> None:
    assert (freshness.seconds, freshness.days) == (seconds, days)


@pytest.mark.parametrize(
    ("amount", "unit", "value"),
    [
        (0, "DAY", 0),
        (-1, "DAY", -1),
        (1, "MONTH", "MONTH"),
        (1, "YEAR", "YEAR"),
        (1, "day", "day"),
        (1, "", ""),
        (36_501, "DAY", "INTERVAL '36501' DAY"),
    ],
)
def test_a_freshness_that_cannot_be_is_refused_with_what_does_not_fit(
    amount: int, unit: str, value: Any
) -> None:
    with pytest.raises(DefinitionInvalid) as raised:
        Freshness(amount, unit)

    assert raised.value.facts == {"key": "FRESHNESS", "value": value}


@pytest.mark.parametrize(
    ("seconds", "freshness"),
    [
        (172_800, Freshness(2, "DAY")),
        (3_600, Freshness(1, "HOUR")),
        (180, Freshness(3, "MINUTE")),
        (90, Freshness(90, "SECOND")),
    ],
)
def test_a_number_of_seconds_becomes_the_largest_unit(seconds: int, freshness: Freshness) -> None:
    assert Freshness.of_seconds(seconds) == freshness


# ------------------------------------------------------------------------------------------------------- grid


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: " ".join(str(value) for value in case.values()))
def test_golden_grid(case: dict[str, str]) -> None:
    amount, unit = case["freshness"].split()
    grid, instant = (
        grid_of(Freshness(int(amount), unit), case["zone"]),
        datetime.fromisoformat(case["instant"]),
    )

    found = {"after": grid.after(instant), "at_or_before": grid.at_or_before(instant)}

    assert {key: value.strftime("%Y-%m-%dT%H:%M:%SZ") for key, value in found.items()} == {
        "after": case["after"],
        "at_or_before": case["at_or_before"],
    }


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FRESHNESSES), st.sampled_from(ZONES), INSTANTS)
def test_after_and_at_or_before_agree_everywhere(freshness: Freshness, zone: str, instant: datetime) -> None:
    grid = grid_of(freshness, zone)

    later, earlier = grid.after(instant), grid.at_or_before(instant)

    assert earlier <= instant < later
    assert grid.after(earlier) == later
    assert grid.at_or_before(later) == later
    assert grid.at_or_before(earlier) == earlier
    assert grid.at_or_before(later - timedelta(microseconds=1)) == earlier
    assert later.utcoffset() == earlier.utcoffset() == timedelta(0)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FRESHNESSES), st.sampled_from(ZONES), INSTANTS)
def test_points_are_never_further_apart_than_promised(
    freshness: Freshness, zone: str, instant: datetime
) -> None:
    grid = grid_of(freshness, zone)

    gap = grid.after(instant) - grid.at_or_before(instant)

    # A local day has up to 25 hours.
    assert gap <= timedelta(seconds=freshness.seconds, hours=1 if freshness.days else 0)


@cache
def shown_in(zone: str, start: datetime, minutes: int) -> list[list[int]]:
    """Which minutes of the day the clock of *zone* shows in each minute after *start*:
    several where it is put forward.
    """
    named = ZoneInfo(zone)
    walls = [
        (start + timedelta(minutes=n)).astimezone(named).replace(tzinfo=None, fold=0) for n in range(minutes)
    ]
    jumps = [max(1, (wall - earlier) // MINUTE) for earlier, wall in pairwise(walls)]
    return [
        [(wall.hour * 60 + wall.minute - n) % 1_440 for n in range(jump)]
        for wall, jump in zip(walls[1:], jumps, strict=True)
    ]


def wall_clock_points(step_minutes: int, zone: str, start: datetime, minutes: int) -> list[datetime]:
    """The definition in `grid_of`, read literally, minute by minute."""
    found: list[int] = []
    for number, shown in enumerate(shown_in(zone, start, minutes), start=1):
        overdue = bool(found) and number - found[-1] == step_minutes
        if overdue or any(minute % step_minutes == 0 for minute in shown):
            found.append(number)
    return [start + number * MINUTE for number in found]


@pytest.mark.parametrize("zone", [*ZONES, "Australia/Lord_Howe", "America/Havana"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", [20, 60, 120, 180, 720])
def test_the_wall_clock_grid_is_its_definition(step: int, change: str, zone: str) -> None:
    start = utc(change) - timedelta(days=2)
    expected = wall_clock_points(step, zone, start, 3 * 1_440)

    grid = grid_of(Freshness(step, "MINUTE"), zone)

    backwards = [expected[-1]]
    while backwards[-1] > expected[0]:
        backwards.append(grid.at_or_before(backwards[-1] - timedelta(microseconds=1)))
    assert (
        points_between(grid, expected[0] - timedelta(seconds=1), expected[-1]) == expected == backwards[::-1]
    )


def test_a_daily_grid_is_local_midnight_on_both_sides_of_summer_time() -> None:
    assert after_each(Freshness(1, "DAY"), "Europe/Berlin", "2026-03-28T12:00", 3) == [
        "28T23:00",
        "29T22:00",
        "30T22:00",
    ]


def test_a_midnight_that_is_skipped_is_the_first_instant_after_the_gap() -> None:
    assert after_each(Freshness(1, "DAY"), "America/Santiago", "2026-09-05T12:00", 2) == [
        "06T04:00",
        "07T03:00",
    ]


def test_a_midnight_that_is_seen_twice_is_the_first() -> None:
    assert after_each(Freshness(1, "DAY"), "America/Havana", "2026-10-31T12:00", 2) == [
        "01T04:00",
        "02T05:00",
    ]


def test_a_day_that_a_zone_skips_gives_no_second_point() -> None:
    assert after_each(Freshness(1, "DAY"), "Pacific/Apia", "2011-12-28T12:00", 3) == [
        "29T10:00",
        "30T10:00",
        "31T10:00",
    ]


def test_hours_that_are_skipped_are_the_first_instant_after_the_gap() -> None:
    assert after_each(Freshness(2, "HOUR"), "Europe/Berlin", "2026-03-28T22:30", 4) == [
        "28T23:00",
        "29T01:00",
        "29T02:00",
        "29T04:00",
    ]


def test_hours_that_are_seen_twice_give_both_instants() -> None:
    assert after_each(Freshness(2, "HOUR"), "Europe/Berlin", "2026-10-24T21:00", 4) == [
        "24T22:00",
        "25T00:00",
        "25T01:00",
        "25T03:00",
    ]


def test_one_more_point_keeps_the_promise_where_the_clock_is_put_back() -> None:
    assert after_each(Freshness(12, "HOUR"), "Europe/Berlin", "2026-10-24T21:00", 4) == [
        "24T22:00",
        "25T10:00",
        "25T11:00",
        "25T23:00",
    ]


def test_whole_hours_follow_a_zone_whose_offset_is_half_an_hour() -> None:
    assert after_each(Freshness(1, "HOUR"), "Asia/Kolkata", "2026-01-01T00:00", 2) == ["01T00:30", "01T01:30"]


@pytest.mark.parametrize("zone", ZONES)
def test_intervals_that_cron_cannot_say_count_from_monday_1970_01_05_in_utc(zone: str) -> None:
    grid = grid_of(Freshness(5, "HOUR"), zone)

    point = grid.after(utc("2026-03-28T12:00"))

    assert (point - utc("1970-01-05T00:00")) % timedelta(hours=5) == timedelta(0)
    assert grid.after(point) == point + timedelta(hours=5)


@pytest.mark.parametrize("freshness", [Freshness(1, "WEEK"), Freshness(7, "DAY"), Freshness(168, "HOUR")])
def test_a_weekly_grid_is_every_local_monday(freshness: Freshness) -> None:
    point = grid_of(freshness, "Europe/Berlin").after(utc("2026-03-25T00:00"))

    local = point.astimezone(ZoneInfo("Europe/Berlin"))
    assert (local.isoformat(), local.strftime("%A")) == ("2026-03-30T00:00:00+02:00", "Monday")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Freshness(60, "SECOND"), Freshness(1, "MINUTE")),
        (Freshness(120, "MINUTE"), Freshness(2, "HOUR")),
        (Freshness(24, "HOUR"), Freshness(1, "DAY")),
        (Freshness(7, "DAY"), Freshness(1, "WEEK")),
    ],
)
def test_equal_lengths_have_equal_grids(one: Freshness, other: Freshness) -> None:
    assert grid_of(one, "Europe/Berlin") == grid_of(other, "Europe/Berlin")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe", "Europe/Berlin\0"])
def test_an_unknown_zone_is_refused_by_name(zone: str) -> None:
    with pytest.raises(DefinitionInvalid, match="is not a known time zone") as refused:
        grid_of(Freshness(1, "DAY"), zone)

    assert f"'{zone}'" in refused.value.message


# ----------------------------------------------------------------------------------------------------- before


@pytest.mark.parametrize(
    ("schedule_time", "freshness", "zone", "expected"),
    [
        ("2026-03-29T22:00", Freshness(1, "DAY"), "Europe/Berlin", "2026-03-28T23:00"),
        ("2026-03-29T22:00", Freshness(24, "HOUR"), "Europe/Berlin", "2026-03-28T23:00"),
        ("2026-03-29T22:00", Freshness(1, "WEEK"), "Europe/Berlin", "2026-03-22T23:00"),
        ("2026-10-25T23:00", Freshness(1, "DAY"), "Europe/Berlin", "2026-10-24T22:00"),
        ("2026-03-29T04:00", Freshness(3, "HOUR"), "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-09-06T04:00", Freshness(1, "DAY"), "America/Santiago", "2026-09-05T04:00"),
        ("2026-09-07T03:00", Freshness(1, "DAY"), "America/Santiago", "2026-09-06T04:00"),
        ("2026-01-01T12:34", Freshness(2, "DAY"), "Asia/Kolkata", "2025-12-30T12:34"),
        ("2026-01-01T00:00", Freshness(90, "SECOND"), "UTC", "2025-12-31T23:58:30"),
    ],
)
def test_before_counts_days_on_the_local_calendar(
    schedule_time: str, freshness: Freshness, zone: str, expected: str
) -> None:
    assert before(utc(schedule_time), freshness, zone) == utc(expected)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([f for f in FRESHNESSES if f.days]), st.sampled_from(ZONES), INSTANTS)
def test_before_a_point_of_a_daily_grid_is_the_point_before(
    freshness: Freshness, zone: str, instant: datetime
) -> None:
    grid = grid_of(freshness, zone)
    point = grid.after(instant)

    assert before(point, freshness, zone) == grid.at_or_before(point - timedelta(microseconds=1))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ZONES), INSTANTS)
def test_a_wall_clock_leads_back_to_its_instant(zone: str, instant: datetime) -> None:
    named = ZoneInfo(zone)
    wall = instant.astimezone(named).replace(tzinfo=None, fold=0)

    found = instant_at(wall, named)

    assert found.astimezone(named).replace(tzinfo=None, fold=0) == wall
    assert found <= instant


@pytest.mark.parametrize(
    ("amount", "unit", "cron"),
    [
        (1, "MINUTE", "* * * * *"),
        (60, "SECOND", "* * * * *"),
        (5, "MINUTE", "*/5 * * * *"),
        (60, "MINUTE", "0 * * * *"),
        (8, "HOUR", "0 */8 * * *"),
        (24, "HOUR", "0 0 * * *"),
        (1, "DAY", "0 0 * * *"),
        (1, "WEEK", "0 0 * * 1"),
        (30, "SECOND", None),
        (90, "SECOND", None),
        (7, "MINUTE", None),
        (90, "MINUTE", None),
        (5, "HOUR", None),
        (2, "DAY", None),
        (2, "WEEK", None),
    ],
)
def test_the_cron_expression_of_a_freshness(amount: int, unit: str, cron: str | None) -> None:
    assert cron_of(Freshness(amount, unit)) == cron


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([each for each in FRESHNESSES if cron_of(each)]), st.sampled_from(STEADY_ZONES), INSTANTS
)
def test_where_the_clock_never_changes_croniter_finds_the_points_of_the_grid_in_its_cron(
    freshness: Freshness, zone: str, instant: datetime
) -> None:
    grid, expected = (
        grid_of(freshness, zone),
        croniter(cron_of(freshness), instant.astimezone(ZoneInfo(zone))),
    )

    points = [instant]
    for _ in range(3):
        points.append(grid.after(points[-1]))

    assert points[1:] == [expected.get_next(datetime).astimezone(UTC) for _ in range(3)]
