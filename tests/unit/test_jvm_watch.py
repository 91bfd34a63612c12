from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from mt_core.spark.driver.jvm_watch import (
    COLLECTING,
    REPORTED_AFTER_S,
    STALLED_AFTER_S,
    Answers,
    JvmWatch,
    Pulse,
)

EVERY_S = 5.0


def watch_of(pulses: Sequence[Pulse | None]) -> JvmWatch:
    newest: Iterator[Pulse | None] = iter(pulses)
    return JvmWatch(lambda: next(newest))


def pulses(*shares: float | None, every_s: float = EVERY_S) -> list[Pulse | None]:
    """Return the pulses of a JVM that leaves its collectors these shares of each time between two looks;
    None: no answer.
    """
    found: list[Pulse | None] = [Pulse(ran_s=100.0, collected_s=1.0)]
    ran_s, collected_s = 100.0, 1.0
    for share in shares:
        ran_s, collected_s = ran_s + every_s, collected_s + every_s * (1.0 if share is None else share)
        found.append(None if share is None else Pulse(ran_s=ran_s, collected_s=collected_s))
    return found


def looks(watch: JvmWatch, count: int) -> list[bool]:
    """Return whether the JVM is useless, at each of *count* looks."""
    found = []
    for _ in range(count):
        watch.poll(EVERY_S)
        found.append(watch.stalled)
    return found


def test_a_jvm_that_does_not_answer_for_a_minute_is_useless_and_said_to_be_silent_before() -> None:
    watch = watch_of([Pulse(ran_s=9.0, collected_s=0.1), *[None] * 12])

    stalled = looks(watch, 4)
    said = watch.trouble

    assert said == "Spark has not answered for 15 s; after 60 s its JVM is killed and restarted."
    assert [*stalled, *looks(watch, 9)] == [False] * 12 + [True]
    assert not watch.out_of_memory


def test_an_answer_in_time_ends_the_count() -> None:
    watch = watch_of([*[None] * 11, Pulse(ran_s=60.0, collected_s=2.0), *[None] * 11])

    assert looks(watch, 23) == [False] * 23
    assert watch.idle_s == 55.0


def test_short_silence_is_no_news() -> None:
    watch = watch_of([None, None])

    looks(watch, 2)

    assert watch.trouble == ""


def test_a_jvm_that_only_collects_garbage_for_a_minute_is_useless_and_said_to_have_no_memory_before() -> None:
    watch = watch_of(pulses(*[0.1] * 20, *[0.95] * 13))

    stalled = looks(watch, 21 + 6)
    said = watch.trouble

    assert said == (
        "Spark is out of memory and has only collected garbage for 30 s; "
        "after 60 s its JVM is killed and restarted."
    )
    assert [*stalled, *looks(watch, 7)].index(True) == 20 + 12
    assert watch.out_of_memory


def test_collections_that_leave_no_time_for_answers_count_together_with_those_that_do() -> None:
    watch = watch_of(pulses(*[0.95] * 4, *[None] * 5, 0.95, 0.95, *[None] * 3))

    assert looks(watch, 15).index(True) == 12


def test_much_garbage_with_some_work_in_between_is_no_stall() -> None:
    shares = [COLLECTING, 0.5, 0.99, 0.99] * 30

    assert not any(looks(watch_of(pulses(*shares)), len(shares) + 1))


def test_a_full_collection_of_some_seconds_is_no_stall() -> None:
    assert not any(looks(watch_of(pulses(0.1, 1.0, 1.0, None, None, 0.2, *[0.1] * 20)), 26))


def test_a_jvm_that_was_stopped_for_less_than_a_minute_goes_on() -> None:
    # It has answered nothing, and its clock went on without a collection.
    after = [Pulse(ran_s=150.0 + EVERY_S * look, collected_s=1.0) for look in range(12)]
    watch = watch_of([Pulse(ran_s=100.0, collected_s=1.0), *[None] * 9, *after])

    assert not any(looks(watch, 22))


def test_a_machine_that_sleeps_for_a_night_has_seen_one_look_without_an_answer() -> None:
    watch = watch_of([Pulse(ran_s=100.0, collected_s=1.0), None, Pulse(ran_s=30_000.0, collected_s=1.0)])

    assert looks(watch, 3) == [False] * 3
    assert (watch.idle_s, watch.trouble) == (0.0, "")


def test_what_is_said_comes_within_the_minute() -> None:
    assert 2 * EVERY_S < REPORTED_AFTER_S < STALLED_AFTER_S


def test_a_question_without_an_answer_blocks_nobody() -> None:
    asked, answer, answered = threading.Semaphore(0), threading.Semaphore(0), threading.Semaphore(0)
    pulse = Pulse(ran_s=1.0, collected_s=0.0)

    def ask() -> Pulse:
        asked.release()
        answer.acquire()
        answered.release()
        return pulse

    found = Answers(ask)
    assert asked.acquire(timeout=60.0)
    silent = [found.newest(), found.newest()]
    answer.release()
    while (newest := found.newest()) is None:
        assert asked.acquire(blocking=False) is False
    assert asked.acquire(timeout=60.0)
    answer.release()
    found.end()

    assert silent == [None, None]
    assert newest is pulse


def test_a_fresh_answer_is_of_a_question_asked_now_and_is_not_waited_for_longer_than_told() -> None:
    answer, numbers, asked = threading.Semaphore(1), iter(range(100)), threading.Semaphore(0)

    def ask() -> int:
        asked.release()
        answer.acquire()
        return next(numbers)

    found = Answers(ask)
    # The first answer is there already, and is not fresh.
    assert asked.acquire(timeout=60.0)
    blocked = [found.fresh(0.01), found.fresh(0.01)]
    while not asked.acquire(blocking=False):
        blocked.append(found.fresh(0.01))
    answer.release()

    fresh = found.fresh(60.0)
    found.end()

    assert set(blocked) <= {0, None}
    assert fresh == 1
    assert asked.acquire(blocking=False) is False
