from __future__ import annotations

from datetime import timedelta

from mt_core.model.freshness import Freshness
from mt_core.tables.continuous.pace import next_poll_at

NOW = timedelta(hours=12, milliseconds=730)


def test_tables_of_one_freshness_are_looked_at_together_twenty_times_within_it() -> None:
    looks = [
        next_poll_at(Freshness(10, "SECOND"), NOW + timedelta(milliseconds=each))
        for each in (0, 100, 269, 270)
    ]

    assert [look - NOW for look in looks] == [timedelta(milliseconds=each) for each in (270, 270, 270, 770)]


def test_a_look_is_at_most_five_seconds_and_at_least_a_twentieth_of_one_away() -> None:
    assert next_poll_at(Freshness(1, "HOUR"), NOW) == NOW + timedelta(milliseconds=4270)
    assert next_poll_at(Freshness(100, "SECOND"), NOW) == NOW + timedelta(milliseconds=4270)


def test_tables_at_rest_are_looked_at_a_quarter_as_often() -> None:
    looks = [
        next_poll_at(Freshness(10, "SECOND"), NOW + timedelta(milliseconds=each), at_rest=True)
        for each in (0, 1270)
    ]

    assert [look - NOW for look in looks] == [timedelta(milliseconds=each) for each in (1270, 3270)]
