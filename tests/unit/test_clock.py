"""Clocks that are put ahead or back."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from mt_core.clock import SystemClock, is_ahead
from mt_core.testing.fake_clock import FakeClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize("jump", [-3 * DAY, -HOUR, HOUR, 3 * DAY])
def test_no_jump_changes_the_time_that_has_elapsed(jump: timedelta) -> None:
    clock = FakeClock(NOON)
    before = clock.elapsed()

    clock.put(jump)
    clock.advance(HOUR)

    assert (clock.elapsed() - before, clock.now()) == (HOUR, NOON + jump + HOUR)


@pytest.mark.parametrize("jump", [-3 * DAY, 3 * DAY])
def test_a_wait_lasts_as_long_as_it_was_to_whatever_happens_to_the_clock(jump: timedelta) -> None:
    clock, ended = FakeClock(NOON), threading.Event()

    def wait() -> None:
        clock.wait(HOUR, threading.Event())
        ended.set()

    thread = threading.Thread(target=wait, name="waits")
    thread.start()
    assert clock.wait_asleep("waits")

    clock.put(jump)
    clock.advance(HOUR - timedelta(seconds=1))
    assert clock.settle()
    early = ended.is_set()
    clock.advance(timedelta(seconds=1))
    thread.join(30)

    assert (early, ended.is_set()) == (False, True)


def test_a_clock_that_was_put_ahead_is_believed_after_a_day() -> None:
    clock = FakeClock(NOON)
    clock.put(30 * DAY)
    surely = []

    for _ in range(27):
        surely.append(clock.now() - clock.surely())
        clock.advance(HOUR)

    assert set(surely[:25]) == {30 * DAY}
    assert surely[-1] == timedelta(0)


def test_a_clock_that_was_put_back_is_believed_at_once() -> None:
    clock = FakeClock(NOON)

    clock.put(-30 * DAY)

    assert clock.surely() == clock.now()


def test_the_machine_s_clock_is_sure_of_the_present() -> None:
    clock = SystemClock()

    assert abs(clock.now() - clock.surely()) < timedelta(minutes=1)


def test_an_instant_further_ahead_than_any_is_stored_is_not_waited_for() -> None:
    waited_for = [None, NOON - HOUR, NOON, NOON + timedelta(seconds=1), NOON + HOUR, NOON + 2 * HOUR]

    assert [is_ahead(instant, NOON, HOUR) for instant in waited_for] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
