from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.errors import DefinitionInvalid, RequestInvalid
from mt_core.model.cron import Cron
from mt_core.model.formatter import (
    check_pattern,
    format_instant,
    is_formatted,
    parse_schedule_time,
    partitions_of,
    show_schedule_time,
)
from mt_core.model.freshness import Freshness
from mt_core.model.partition import PartitionSpec

INSTANT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2026-01-02"),
        ("yyyyMMdd", "20260102"),
        ("yy", "26"),
        ("y", "2026"),
        ("M/d", "1/2"),
        ("MMM", "Jan"),
        ("MMMM", "January"),
        ("HH", "08"),
        ("H:mm:ss", "8:34:05"),
        ("m-s", "34-5"),
        ("ss.SSS", "05.000"),
        ("yyyy-MM-dd'T'HH:mm", "2026-01-02T08:34"),
        ("HH 'o''clock'", "08 o'clock"),
        ("''yy", "'26"),
        ("yyyy%MM", "2026%01"),
        ("'100%s'", "100%s"),
        ("年yyyy", "年2026"),
    ],
)
def test_a_pattern_shows_an_instant_in_the_zone(pattern: str, text: str) -> None:
    check_pattern("ds", pattern)

    assert format_instant(INSTANT, pattern, "Asia/Kolkata") == text


@pytest.mark.parametrize(
    "letter", [c for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in "yMdHmsS"]
)
def test_a_letter_that_is_not_supported_is_named_with_its_option(letter: str) -> None:
    with pytest.raises(DefinitionInvalid) as refused:
        check_pattern("ds", f"yyyy-{letter}")

    assert refused.value.message == (
        f"partition.fields.ds.date-formatter: the pattern 'yyyy-{letter}' has the letter {letter}, "
        "which is not supported; supported are y, M, d, H, m, s, S, and text in 'quotes'."
    )


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "is empty"),
        ("yyyy'T", "unterminated quote"),
        ("MMMMM", "at most 4 letters M"),
        ("ddd", "at most 2 letters d"),
        ("HHH", "at most 2 letters H"),
    ],
)
def test_a_pattern_that_java_would_read_otherwise_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(DefinitionInvalid, match=reason):
        check_pattern("ds", pattern)


@settings(deadline=None)
@given(st.text(alphabet="yMdHmsS'-%: \\{}é", min_size=1, max_size=12))
def test_whatever_passes_the_check_can_be_formatted(pattern: str) -> None:
    try:
        check_pattern("ds", pattern)
    except DefinitionInvalid:
        return

    assert isinstance(format_instant(INSTANT, pattern, "UTC"), str)


# ------------------------------------------------------------------------------------------------- partitions


@pytest.mark.parametrize(
    ("schedule_time", "freshness", "zone", "formatters", "expected"),
    [
        ("2024-01-03 00:00:00", Freshness(1, "DAY"), "UTC", {"ds": "yyyy-MM-dd"}, {"ds": "2024-01-02"}),
        (
            "2026-03-30 00:00:00",
            Freshness(1, "DAY"),
            "Europe/Berlin",
            {"ds": "yyyy-MM-dd"},
            {"ds": "2026-03-29"},
        ),
        ("2026-10-26 00:00:00", Freshness(1, "DAY"), "Europe/Berlin", {"ds": "yyyyMMdd"}, {"ds": "20261025"}),
        (
            "2026-09-06 00:00:00",
            Freshness(1, "DAY"),
            "America/Santiago",
            {"ds": "yyyy-MM-dd"},
            {"ds": "2026-09-05"},
        ),
        (
            "2026-01-01 00:00:00",
            Freshness(1, "HOUR"),
            "Asia/Kolkata",
            {"ds": "yyyy-MM-dd", "hh": "HH"},
            {"ds": "2025-12-31", "hh": "23"},
        ),
        ("2026-10-25 03:00:00", Freshness(1, "HOUR"), "Europe/Berlin", {"hh": "HH"}, {"hh": "02"}),
        ("2026-01-05 00:00:00", Freshness(1, "WEEK"), "UTC", {"ds": "yyyy-MM-dd"}, {"ds": "2025-12-29"}),
    ],
)
def test_the_partition_of_a_schedule_time_is_schedule_time_minus_freshness(
    schedule_time: str, freshness: Freshness, zone: str, formatters: dict[str, str], expected: dict[str, str]
) -> None:
    instant = parse_schedule_time(schedule_time, zone)

    assert partitions_of(instant, freshness, zone, formatters) == (PartitionSpec.of(expected),)


@pytest.mark.parametrize(
    ("schedule_time", "expression", "pattern", "expected"),
    [
        (
            "2026-03-30 06:00:00",
            "0 6 * * MON-FRI",
            "yyyy-MM-dd",
            ["2026-03-27", "2026-03-28", "2026-03-29", "2026-03-30"],
        ),
        ("2026-03-31 00:00:00", "0 0 * * *", "yyyy-MM-dd", ["2026-03-30"]),
        ("2026-03-01 00:00:00", "0 0 1 * *", "yyyy-MM", ["2026-02"]),
        ("2026-03-29 04:00:00", "0 0-4/4 * * *", "HH", ["00", "01", "03"]),
        ("2026-10-25 04:00:00", "0 0-4/4 * * *", "HH", ["00", "01", "02", "03"]),
        ("2026-10-25 03:15:00", "15 3 25 10 *", "yyyy", ["2025", "2026"]),
        ("2026-01-01 00:01:00", "* * * * *", "HH:mm", ["00:00"]),
        ("2026-01-01 00:01:00", "* * * * *", "'all'", ["all"]),
    ],
)
def test_a_schedule_time_of_a_cron_stands_for_all_partitions_since_the_one_before_it(
    schedule_time: str, expression: str, pattern: str, expected: list[str]
) -> None:
    instant = parse_schedule_time(schedule_time, "Europe/Berlin")

    specs = partitions_of(instant, Cron(expression), "Europe/Berlin", {"ds": pattern})

    assert list(specs) == [PartitionSpec.of({"ds": value}) for value in expected]


def test_partitions_by_minute_between_the_two_courses_of_a_repeated_hour_are_all_named() -> None:
    # 02:30 is shown at 00:30Z and 01:30Z.
    second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)

    specs = partitions_of(second, Cron("30 * * * *"), "Europe/Berlin", {"ds": "HH:mm"})

    minutes = [f"02:{minute:02}" for minute in range(60)]
    assert sorted(specs) == [PartitionSpec.of({"ds": minute}) for minute in minutes]


# --------------------------------------------------------------------------------------------- schedule times


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2026-01-02 03:04:05", "UTC", "2026-01-02T03:04:05"),
        ("2026-01-02 00:00:00", "Asia/Kolkata", "2026-01-01T18:30:00"),
        ("2026-07-02 00:00:00", "Europe/Berlin", "2026-07-01T22:00:00"),
        ("2026-03-29 02:30:00", "Europe/Berlin", "2026-03-29T01:00:00"),
        ("2026-10-25 02:30:00", "Europe/Berlin", "2026-10-25T00:30:00"),
        ("2026-09-06 00:00:00", "America/Santiago", "2026-09-06T04:00:00"),
    ],
)
def test_a_schedule_time_is_read_in_the_zone(text: str, zone: str, instant: str) -> None:
    assert parse_schedule_time(text, zone) == datetime.fromisoformat(instant).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-1-2 3:4:5",
        "2026-13-01 00:00:00",
        "2026-02-30 00:00:00",
        "2026-01-02 24:00:00",
        "2026-01-02 03:04:05Z",
        "2026-01-02 03:04:05.5",
        " 2026-01-02 03:04:05",
        "2026-01-02 03:04:05\n",
        "٢٠٢٦-01-02 03:04:05",
        "0001-01-01 00:00:00",
        "now",
    ],
)
def test_a_schedule_time_that_cannot_be_read_is_refused_with_field_text_and_format(text: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_schedule_time(text, "Europe/Berlin")

    assert refused.value.message == (
        f"scheduleTime: '{text}' cannot be read; write it as yyyy-MM-dd HH:mm:ss in the time zone "
        "Europe/Berlin, for example 2026-01-31 00:00:00."
    )


def test_a_schedule_time_in_an_unknown_zone_names_the_zone() -> None:
    with pytest.raises(DefinitionInvalid, match="'Mars' is not a known time zone"):
        parse_schedule_time("2026-01-01 00:00:00", "Mars")


def test_a_schedule_time_is_shown_in_the_zone_without_fractions() -> None:
    assert show_schedule_time(INSTANT + timedelta(microseconds=7), "Europe/Berlin") == "2026-01-02 04:04:05"


@settings(deadline=None)
@given(
    st.integers(0, 4_000_000_000),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Asia/Beirut", "UTC"]),
)
def test_a_schedule_time_survives_showing_and_reading(seconds: int, zone: str) -> None:
    instant = datetime.fromtimestamp(seconds, UTC)

    found = parse_schedule_time(show_schedule_time(instant, zone), zone)

    # Only the second showing of a wall clock is read as the first.
    seen_twice = instant.astimezone(ZoneInfo(zone)).fold
    assert found == instant if not seen_twice else found < instant


def test_the_hour_that_comes_twice_has_a_schedule_time_of_its_own_each_time() -> None:
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)

    texts = [show_schedule_time(instant, "Europe/Berlin", exact=True) for instant in (first, second)]

    assert texts == ["2026-10-25 02:30:00", "2026-10-25 02:30:00+01:00"]
    assert [parse_schedule_time(text, "Europe/Berlin") for text in texts] == [first, second]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(min_value=0, max_value=7_000_000_000),
    st.lists(
        st.sampled_from(
            ["yyyy", "yy", "y", "MM", "M", "MMM", "MMMM", "dd", "d", "HH", "H", "mm", "ss", "-", "'T'", "''"]
        ),
        min_size=1,
    ),
)
def test_what_a_pattern_shows_is_one_of_its_values(moment: int, parts: list[str]) -> None:
    pattern = "/".join(parts)

    assert is_formatted(format_instant(datetime.fromtimestamp(moment, UTC), pattern, "UTC"), pattern)
