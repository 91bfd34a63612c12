from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_plugins.memory.timer import Timer

NOON = datetime(2024, 1, 3, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def timer() -> Timer:
    return Timer()


def test_an_empty_timer_is_never_due(timer: Timer) -> None:
    assert timer.next_instant() is None
    assert timer.pop_due(NOON) == []


def test_names_come_out_earliest_first_and_only_once(timer: Timer) -> None:
    timer.set("late", NOON + SECOND)
    timer.set("early", NOON)
    timer.set("later", NOON + 2 * SECOND)

    due = timer.pop_due(NOON + SECOND)

    assert due == ["early", "late"]
    assert timer.pop_due(NOON + SECOND) == []
    assert timer.next_instant() == NOON + 2 * SECOND
    assert timer.pop_due(NOON + 2 * SECOND) == ["later"]


@pytest.mark.parametrize("moved", [NOON - SECOND, NOON + SECOND])
def test_setting_a_name_again_moves_it(timer: Timer, moved: datetime) -> None:
    timer.set("table", NOON)

    timer.set("table", moved)

    assert (timer.next_instant(), timer.instants.get("table")) == (moved, moved)
    assert timer.pop_due(NOON + SECOND) == ["table"]


def test_a_name_that_is_moved_there_and_back_is_due_once(timer: Timer) -> None:
    timer.set("table", NOON)
    timer.set("table", NOON + SECOND)
    timer.set("table", NOON)

    assert timer.pop_due(NOON + SECOND) == ["table"]


def test_a_dropped_name_is_not_due_and_dropping_it_again_is_harmless(timer: Timer) -> None:
    timer.set("table", NOON)

    timer.drop("table")
    timer.drop("table")

    assert (timer.next_instant(), timer.instants.get("table"), timer.pop_due(NOON)) == (None, None, [])


def test_a_name_moved_for_ever_does_not_grow_the_heap(timer: Timer) -> None:
    for count in range(10_000):
        timer.set("table", NOON + count * SECOND)

    assert len(timer._heap) < 100
    assert timer.next_instant() == NOON + 9_999 * SECOND
