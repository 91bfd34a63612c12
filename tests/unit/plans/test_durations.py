"""Durations in plans: every text that Flink reads, and the one that is written."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.plans.durations import FOR_EVER, ttl_of, ttl_text


@pytest.mark.parametrize(
    ("text", "ttl"),
    [
        ("3600000 ms", timedelta(hours=1)),
        ("1 h", timedelta(hours=1)),
        ("90", timedelta(milliseconds=90)),
        ("5 min", timedelta(minutes=5)),
        ("7d", timedelta(days=7)),
        ("PT1H", timedelta(hours=1)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("pt0.001s", timedelta(milliseconds=1)),
        ("0", FOR_EVER),
        ("0 ms", FOR_EVER),
        ("PT0S", FOR_EVER),
    ],
)
def test_a_ttl_is_read_in_units_and_as_iso_8601(text: str, ttl: timedelta) -> None:
    assert ttl_of(text) == ttl


@pytest.mark.parametrize(
    "text", ["", "soon", "-1 h", "P", "PT", "P1Y", "1 h 2 min", "PT1H2", "P40000D", "99999 d"]
)
def test_anything_else_is_no_ttl(text: str) -> None:
    assert ttl_of(text) is None


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        (timedelta(hours=1), "1 h"),
        (timedelta(hours=24), "1 d"),
        (timedelta(minutes=90), "90 min"),
        (timedelta(milliseconds=1500), "1500 ms"),
        (FOR_EVER, "0 ms"),
    ],
)
def test_a_ttl_is_written_in_the_biggest_whole_unit(ttl: timedelta, text: str) -> None:
    assert ttl_text(ttl) == text


@given(st.integers(min_value=1, max_value=FOR_EVER // timedelta(milliseconds=1)))
def test_what_is_written_is_read_as_the_same(milliseconds: int) -> None:
    ttl = timedelta(milliseconds=milliseconds)

    assert ttl_of(ttl_text(ttl)) == ttl
