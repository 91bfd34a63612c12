from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.base.ages import age_text


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=119.9), "119 s"),
        (timedelta(seconds=120), "2 min"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=2), "2 d"),
    ],
)
def test_an_age_has_the_largest_unit_in_which_it_is_at_least_two(age: timedelta, text: str) -> None:
    assert age_text(age) == text
