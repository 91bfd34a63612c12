"""What a gateway says of the health of its scheduler."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from mt_core.errors import WorkflowError
from mt_core.keepers.scheduler_watch import LIMIT, SchedulerWatch
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.scheduler import SchedulerHealth
from tests.support.fake_scheduler import FakeScheduler
from tests.support.registry_facts import NOON


class AskedScheduler(FakeScheduler):
    """Answers the question for its health with `answer`, or raises it."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: SchedulerHealth | Exception | None = SchedulerHealth()

    def health(self) -> SchedulerHealth | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class World:
    def __init__(self) -> None:
        self.scheduler, self.clock = AskedScheduler(), FakeClock(NOON)
        self.watch = SchedulerWatch(self.scheduler, self.clock)

    def trouble(
        self, answer: SchedulerHealth | Exception | None, *, after: timedelta = timedelta(0)
    ) -> str | None:
        """Return what is said after another look."""
        self.clock.advance(after)
        self.scheduler.answer = answer
        self.watch.poll()
        return self.watch.trouble()


def test_nothing_is_known_before_the_first_look_nor_of_a_scheduler_without_the_question() -> None:
    world = World()

    before, after = world.watch.trouble(), world.trouble(None)
    inherited = SchedulerWatch(FakeScheduler(), world.clock)
    inherited.poll()

    assert (before, after, inherited.trouble()) == (None, None, None)


def test_a_scheduler_that_is_ill_is_named_with_since_when_and_the_way_out() -> None:
    world = World()

    ill = world.trouble(SchedulerHealth(trouble="its sun is down; wait", since=NOON - timedelta(hours=2)))
    well = world.trouble(SchedulerHealth())

    assert (ill, well) == ("fake is UNHEALTHY since 2026-03-01 10:00:00 UTC: its sun is down; wait", "")


def test_a_scheduler_that_fails_is_ill_since_the_first_look_that_found_it_so() -> None:
    world, minute = World(), timedelta(minutes=1)
    world.trouble(SchedulerHealth())

    first = world.trouble(WorkflowError("no answer"), after=minute)
    second = world.trouble(WorkflowError("nobody is there"), after=minute)
    world.trouble(SchedulerHealth(), after=minute)
    again = world.trouble(WorkflowError("no answer"), after=minute)

    assert first == "fake is UNHEALTHY since 2026-03-01 12:01:00 UTC: no answer"
    assert second == "fake is UNHEALTHY since 2026-03-01 12:01:00 UTC: nobody is there"
    assert again == "fake is UNHEALTHY since 2026-03-01 12:04:00 UTC: no answer"


def test_a_question_that_is_not_answered_in_time_counts_as_ill() -> None:
    world = World()
    world.trouble(SchedulerHealth())

    with pytest.raises(ZeroDivisionError):
        world.trouble(ZeroDivisionError())
    soon = world.watch.trouble()
    world.clock.advance(LIMIT)
    with pytest.raises(ZeroDivisionError):
        world.trouble(ZeroDivisionError(), after=timedelta(seconds=1))

    assert soon == ""
    assert str(world.watch.trouble()).startswith(
        "fake is UNHEALTHY since 2026-03-01 12:00:00 UTC: it has not answered"
    )
    assert world.trouble(SchedulerHealth()) == ""


def test_a_clock_that_is_put_ahead_while_the_scheduler_answers_makes_it_no_iller() -> None:
    world = World()
    world.trouble(SchedulerHealth())
    with pytest.raises(ZeroDivisionError):
        world.trouble(ZeroDivisionError())

    world.clock.put(timedelta(days=3))

    assert world.watch.trouble() == ""


def test_only_a_change_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    with caplog.at_level(logging.INFO):
        for answer in (
            SchedulerHealth(),
            WorkflowError("gone"),
            WorkflowError("gone"),
            SchedulerHealth(),
            None,
        ):
            world.trouble(answer)

    actions = [record.action for record in caplog.records]  # type: ignore[attr-defined]
    assert actions == ["scheduler_ill", "scheduler_well"]
