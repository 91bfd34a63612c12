from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mt_core.base.background import BackgroundLoop, start_thread
from mt_core.testing.fake_clock import FakeClock

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WAIT_S = 60.0


class Work:
    """Work that notes when it is done, and fails as often as it is told."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.failures = 0
        self.times: list[float] = []

    def __call__(self) -> None:
        self.times.append((self._clock.now() - NOW).total_seconds())
        if self.failures:
            self.failures -= 1
            raise KeyError("dag_id")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def work(clock: FakeClock) -> Work:
    return Work(clock)


@pytest.fixture
def loop(clock: FakeClock, work: Work) -> Iterator[BackgroundLoop]:
    made = BackgroundLoop("upkeep", work, clock=clock, every=timedelta(seconds=30))
    yield made
    made.end()
    assert made.join(WAIT_S)


def pass_seconds(clock: FakeClock, seconds: int) -> None:
    for _ in range(seconds):
        assert clock.settle(threads="upkeep", timeout_s=WAIT_S)
        clock.advance(timedelta(seconds=1))
    assert clock.settle(threads="upkeep", timeout_s=WAIT_S)


def test_a_loop_does_its_work_after_each_pause(clock: FakeClock, loop: BackgroundLoop, work: Work) -> None:
    loop.start()
    assert clock.wait_asleep("upkeep", WAIT_S)

    pass_seconds(clock, 61)

    assert work.times == [30, 60]


def test_a_key_error_of_a_plug_in_ends_no_loop_and_is_logged_with_its_traceback(
    clock: FakeClock, loop: BackgroundLoop, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.failures = 7
    loop.start()
    assert clock.wait_asleep("upkeep", WAIT_S)

    pass_seconds(clock, 152)

    assert work.times == [30, 31, 33, 37, 45, 61, 91, 121, 151]
    assert [record.exc_info is not None for record in caplog.records] == [True] * 7
    assert {(record.levelno, record.getMessage()) for record in caplog.records} == {
        (logging.ERROR, "upkeep failed")
    }


def test_a_loop_may_end_itself(clock: FakeClock) -> None:
    done: list[int] = []

    def once() -> None:
        done.append(1)
        ending.end()

    ending = BackgroundLoop("once", once, clock=clock)
    ending.start()

    assert ending.join(WAIT_S)
    assert done == [1]


def test_a_loop_that_was_ended_before_its_start_does_nothing(clock: FakeClock, work: Work) -> None:
    loop = BackgroundLoop("upkeep", work, clock=clock)
    loop.end()

    loop.start()

    assert loop.join(WAIT_S)
    assert work.times == []


def test_a_thread_hands_on_the_error_it_ends_with() -> None:
    ended, errors = threading.Event(), []

    def fail() -> None:
        raise KeyError("dag_id")

    def note(error: Exception) -> None:
        errors.append(error)
        ended.set()

    start_thread("start", fail, note)

    assert ended.wait(WAIT_S)
    assert [repr(error) for error in errors] == ["KeyError('dag_id')"]


def test_the_state_of_a_loop_counts_its_failures_since_the_start_and_since_the_last_success(
    clock: FakeClock, loop: BackgroundLoop, work: Work
) -> None:
    work.failures = 2
    loop.attempt()
    loop.attempt()
    loop.attempt()
    work.failures = 1

    loop.attempt()

    assert (loop.state.failures, loop.state.all_failures, loop.state.succeeded_at) == (1, 3, NOW)
