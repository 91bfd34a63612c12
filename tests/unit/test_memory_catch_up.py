from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta

from scheduler_plugins.memory.catch_up import CatchUp
from scheduler_plugins.memory.outbox import Tick

NOON = datetime(2024, 1, 3, 12, tzinfo=UTC)
TICKS = [Tick(workflow_id=f"table-{number}", point=NOON) for number in range(100)]


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def missed_ticks(per_second: float) -> CatchUp:
    ticks = OrderedDict((tick.workflow_id, tick) for tick in TICKS)
    return CatchUp(ticks=ticks, gap=timedelta(seconds=1 / per_second), next=NOON)


def test_ticks_are_let_out_one_after_the_other_at_their_rate() -> None:
    missed = missed_ticks(per_second=2)

    taken = [missed.take(after(seconds), room=True) for seconds in (0, 0.4, 0.5, 1)]

    assert taken == [TICKS[:1], [], TICKS[1:2], TICKS[2:3]]
    assert missed.next_instant() == after(1.5)


def test_a_timer_that_is_a_little_late_keeps_the_rate() -> None:
    missed = missed_ticks(per_second=50)

    taken = [tick for step in range(21) for tick in missed.take(after(step * 0.05), room=True)]

    assert taken == TICKS[:51]


def test_what_a_stall_held_up_is_not_let_out_at_once() -> None:
    missed = missed_ticks(per_second=50)
    missed.take(NOON, room=True)

    late = missed.take(after(10), room=True)

    assert len(late) == 6
    assert missed.next_instant() == after(10.02)


def test_without_room_nothing_is_let_out_nor_made_up_for_later() -> None:
    missed = missed_ticks(per_second=50)

    crowded = [missed.take(after(step * 0.02), room=False) for step in range(100)]
    then = missed.take(after(2), room=True)

    assert (crowded, then) == ([[]] * 100, TICKS[:1])


def test_a_dropped_tick_is_not_let_out_and_the_end_is_known() -> None:
    missed = missed_ticks(per_second=1)
    missed.drop("table-0")
    missed.drop("nobody")

    taken = [tick for second in range(99) for tick in missed.take(after(second), room=True)]

    assert (taken, missed.next_instant(), missed.take(after(500), room=True)) == (TICKS[1:], None, [])


def test_a_clock_that_is_put_back_by_days_holds_up_no_missed_tick() -> None:
    missed = missed_ticks(per_second=1)
    missed.take(NOON, room=True)

    back = NOON - timedelta(days=3)
    taken = [missed.take(back + timedelta(seconds=second), room=True) for second in (0, 0.5, 1)]

    assert taken == [TICKS[1:2], [], TICKS[2:3]]
