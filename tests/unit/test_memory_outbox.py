from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_plugins.memory.outbox import Outbox, Tick

NOON = datetime(2024, 1, 3, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def tick(minute: int = 0, *, workflow_id: str = "table", attempt: int = 1) -> Tick:
    return Tick(workflow_id=workflow_id, point=NOON + timedelta(minutes=minute), attempt=attempt)


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


def taken(outbox: Outbox) -> Tick:
    found = outbox.take()
    assert found is not None
    return found


def test_ticks_are_taken_in_the_order_they_came_and_once(outbox: Outbox) -> None:
    outbox.put(tick(workflow_id="first"))
    outbox.put(tick(workflow_id="second"))

    assert [outbox.take(), outbox.take(), outbox.take()] == [
        tick(workflow_id="first"),
        tick(workflow_id="second"),
        None,
    ]


def test_a_newer_point_takes_the_place_of_the_older(outbox: Outbox) -> None:
    outbox.put(tick(0))
    outbox.put(tick(1))

    assert [outbox.take(), outbox.take()] == [tick(1), None]


def test_an_older_point_does_not_take_the_place_of_a_newer(outbox: Outbox) -> None:
    outbox.put(tick(1))
    outbox.put(tick(0))

    assert [outbox.take(), outbox.take()] == [tick(1), None]


def test_a_workflow_has_one_tick_in_flight_and_the_newer_follows_it(outbox: Outbox) -> None:
    outbox.put(tick(0))
    first = taken(outbox)
    outbox.put(tick(1))

    meanwhile = outbox.take()
    outbox.finish(first)

    assert meanwhile is None
    assert outbox.take() == tick(1)


def test_the_point_in_flight_is_not_put_again(outbox: Outbox) -> None:
    outbox.put(tick(0))
    first = taken(outbox)

    outbox.put(tick(0))
    outbox.finish(first)

    assert (outbox.take(), list(outbox.in_flight)) == (None, [])


def test_a_failed_tick_is_taken_again_when_its_time_comes(outbox: Outbox) -> None:
    outbox.put(tick(0))

    outbox.finish(taken(outbox), retry_at=NOON + SECOND)
    outbox.release(NOON)
    too_early = outbox.take()
    outbox.release(NOON + SECOND)

    assert too_early is None
    assert outbox.take() == tick(0, attempt=2)


def test_a_failed_tick_gives_way_to_a_newer_point(outbox: Outbox) -> None:
    outbox.put(tick(0))
    first = taken(outbox)
    outbox.put(tick(1))

    outbox.finish(first, retry_at=NOON + SECOND)

    assert (outbox.take(), outbox.delayed.next_instant()) == (tick(1), None)


def test_a_newer_point_does_not_wait_for_the_retry_of_the_older(outbox: Outbox) -> None:
    outbox.put(tick(0))
    outbox.finish(taken(outbox), retry_at=NOON + SECOND)

    outbox.put(tick(1))

    assert (outbox.take(), outbox.delayed.next_instant()) == (tick(1), None)


def test_a_dropped_tick_is_neither_taken_nor_tried_again(outbox: Outbox) -> None:
    outbox.put(tick(workflow_id="waiting"))
    outbox.drop("waiting")
    outbox.put(tick(workflow_id="delayed"))
    outbox.finish(taken(outbox), retry_at=NOON + SECOND)
    outbox.drop("delayed")
    outbox.put(tick(workflow_id="flying"))
    flying = taken(outbox)
    outbox.drop("flying")

    outbox.finish(flying, retry_at=NOON + SECOND)
    outbox.release(NOON + SECOND)

    assert (outbox.take(), outbox.delayed.next_instant(), list(outbox.in_flight)) == (None, None, [])
