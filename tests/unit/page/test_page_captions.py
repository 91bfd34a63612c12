"""What the figures of a table say in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mt_core.gateway.page.charts.captions import (
    UNKNOWN,
    numbers,
    percent_text,
    refreshes_caption,
    staleness_caption,
)
from mt_core.gateway.page.charts.figures import Figures, Stalest
from mt_core.model.run import RunStatus
from tests.support.registry_facts import HOUR, NOON

WEEK_S = 7 * 86_400.0


def figures(**changes: Any) -> Figures:
    """Return the figures of a table of which nothing is known in the 7 days before noon."""
    nothing = Figures(
        since=NOON - timedelta(days=7),
        until=NOON,
        known_s=0.0,
        late_s=0.0,
        stalest=None,
        median_s=None,
        p95_s=None,
        rows_a_day=None,
        bytes_a_day=None,
    )
    return replace(nothing, **changes)


def shown(of: Figures) -> list[tuple[str, str, str]]:
    return [(number.name, number.value, number.note) for number in numbers(of, "Europe/Rome")]


def test_numbers_of_which_nothing_is_known_are_dashes() -> None:
    assert shown(figures()) == [
        ("Fresh", UNKNOWN, ""),
        ("Longest staleness", UNKNOWN, ""),
        ("Duration", UNKNOWN, ""),
        ("Written a day", UNKNOWN, ""),
    ]


def test_the_four_numbers_have_units_and_times_in_the_zone_of_the_table() -> None:
    known = figures(
        known_s=WEEK_S,
        late_s=WEEK_S * 0.008,
        stalest=Stalest(seconds=11_100, at=NOON - 2 * HOUR),
        median_s=2.1,
        p95_s=75.0,
        rows_a_day=1_203.6,
        bytes_a_day=3_200_000.0,
    )

    assert shown(known) == [
        ("Fresh", "99.2 %", "of 7 d"),
        ("Longest staleness", "3 h 5 min", "at 11:00"),
        ("Duration", "2.1 s", "median; 95 % at most 1 min 15 s"),
        ("Written a day", "1,204 rows", "3.2 MB of sources read"),
    ]
    fresh, longest, *_ = numbers(known, "Europe/Rome")
    assert fresh.title.endswith("it was late for 1 h 20 min.")
    assert longest.title.endswith("That was at 2026-03-01 11:00:00 Europe/Rome.")


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.99999, "99.9 %"), (0.5, "50 %"), (0.123, "12.3 %"), (0.0001, "0.1 %"), (0.0, "0 %")],
)
def test_only_a_table_that_was_never_late_is_100_percent_fresh(share: float, text: str) -> None:
    assert percent_text(share) == text


def test_the_captions_say_what_the_charts_show() -> None:
    known = figures(
        known_s=WEEK_S,
        late_s=720.0,
        stalest=Stalest(seconds=7_140, at=NOON - HOUR),
        median_s=2.0,
        p95_s=8.0,
        ended={RunStatus.SUCCEEDED: 1_200, RunStatus.SKIPPED: 3, RunStatus.FAILED: 1},
    )

    assert staleness_caption(known, "UTC") == "Late for 12 min in all. Stalest at 11:00: 1 h 59 min."
    assert staleness_caption(replace(known, late_s=0.0), "UTC").startswith("Never late. ")
    assert refreshes_caption(known) == (
        "1,204 refreshes: 1,200 succeeded, 3 skipped, 1 failed. Median duration 2 s; 95 % took at most 8 s."
    )


def test_a_table_that_has_never_been_staler_is_stalest_now() -> None:
    late = figures(known_s=WEEK_S, late_s=60.0, stalest=Stalest(seconds=7_200, at=NOON))

    assert staleness_caption(late, "UTC") == "Late for 1 min in all. Stalest now: 2 h."
    assert shown(late)[1] == ("Longest staleness", "2 h", "now")


def test_the_captions_say_when_there_is_nothing_to_show() -> None:
    assert staleness_caption(figures(), "UTC").startswith("No refresh in this time has published rows")
    assert refreshes_caption(figures()) == "No refresh has ended in this time."


def test_the_caption_of_a_continuous_table_says_that_not_all_batches_are_shown() -> None:
    kept = "of which the ledger keeps the last of each refresh"

    assert refreshes_caption(figures(batches=300)) == f"300 batches, {kept}."
    assert refreshes_caption(figures(batches=12, ended={RunStatus.FAILED: 1})) == (
        f"12 batches, {kept}; 1 refresh: 1 failed."
    )
