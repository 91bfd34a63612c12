"""How the page writes instants, durations, numbers, sizes and SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.gateway.page.formats import age, instant, instant_text, number_text, size_text, span_text, sql

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.004, "0.01 s"),
        (0.34, "0.3 s"),
        (2, "2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (250, "4 min 10 s"),
        (6000, "1 h 40 min"),
        (86400, "1 d"),
        (190_000, "2 d 4 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
    assert span_text(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12 kB"),
        (999_600, "1.0 MB"),
        (2.5e12, "2.5 TB"),
    ],
)
def test_a_size_has_the_largest_unit_that_fits(size: float, text: str) -> None:
    assert size_text(size) == text


def test_thousands_have_commas() -> None:
    assert number_text(1234567) == "1,234,567"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (NOW - timedelta(minutes=3), "12:57:00"),
        (NOW - timedelta(hours=3), "10:00"),
        (NOW - timedelta(days=2), "27 Feb 13:00"),
        (NOW - timedelta(days=300), "2025-05-05 14:00"),
    ],
)
def test_an_instant_is_written_in_its_zone_with_as_much_of_the_date_as_is_open(value, text) -> None:
    assert instant_text(value, "Europe/Berlin", NOW) == text


def test_an_instant_says_exactly_when_in_its_title() -> None:
    element = str(instant(NOW, "Europe/Berlin", NOW))

    assert 'datetime="2026-03-01T12:00:00Z"' in element
    assert 'title="2026-03-01 13:00:00 Europe/Berlin"' in element


def test_an_age_never_lies_in_the_future() -> None:
    assert ">0 s<" in str(age(NOW + timedelta(seconds=3), NOW))


@given(text=st.text(max_size=100))
def test_sql_of_any_kind_is_text(text: str) -> None:
    from html.parser import HTMLParser

    read: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag in {"code", "span"}
            assert {name for name, _ in attrs} <= {"class"}

        def handle_data(self, data):
            read.append(data)

    Reader().feed(str(sql(text)))

    # HTML knows one kind of line break.
    assert "".join(read).split() == text.split()
