from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from mt_core.errors import IllegalStatus, PluginError
from mt_core.jobs.installed import InstalledHooks
from mt_core.jobs.store import LOST, JobStore
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobEvent, JobHook, JobStatus
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry
from tests.support.recording_hook import RecordingHook
from tests.support.registry_facts import HOUR, NOON, a_job

SECOND = timedelta(seconds=1)
HOOK = JobHook(name="recording", body={"note": "n"})


class World:
    """A registry, and gateways on it that have one hook."""

    def __init__(self, hook: RecordingHook) -> None:
        self.hook, self.clock = hook, FakeClock(NOON)
        self.registry = MemoryRegistry(self.clock)
        self.store = self.gateway("mine")

    def gateway(self, owner: str, *, without_hook: bool = False) -> JobStore:
        hooks = InstalledHooks({} if without_hook else {"recording": self.hook})
        return JobStore(self.registry, owner=owner, clock=self.clock, hooks=hooks)

    def lease(self, owner: str, length: timedelta) -> None:
        with self.registry.transaction() as transaction:
            transaction.gateways.put(GatewayLease(owner=owner, lease_until=NOON + length))

    def job(self, job_id: str = "a") -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job

    def events(self) -> list[str]:
        return [event for event, *_ in self.hook.calls]


@pytest.fixture
def world() -> World:
    return World(RecordingHook())


@pytest.mark.parametrize(
    ("status", "error", "last"),
    [
        (JobStatus.FINISHED, None, ("finished", "a", "7")),
        (JobStatus.FAILED, "no rows", ("failed", "a", "no rows")),
        (JobStatus.CANCELED, None, ("canceled", "a", "n")),
    ],
)
def test_a_hook_is_called_for_the_creation_and_then_for_the_end(
    world: World, status: JobStatus, error: str | None, last: tuple[str, str, str]
) -> None:
    world.store.begin(a_job(hooks=(HOOK,)))
    world.store.calls.call_due()
    created = list(world.hook.calls)

    world.store.end("a", status, rows_written=7, error=error)
    world.store.calls.call_due()
    world.clock.advance(HOUR)
    world.store.calls.call_due()

    assert (created, world.hook.calls) == ([("created", "a", "n")], [("created", "a", "n"), last])
    assert world.job().hooks[0].done == (JobEvent.CREATED, JobEvent(status.value))


def test_a_job_waits_for_an_awaited_hook_alone() -> None:
    world = World(RecordingHook(awaited=True))
    world.store.begin(a_job("a", hooks=(HOOK,)))
    awaited = world.events()
    world.hook.awaited = False  # type: ignore[misc]

    world.store.begin(a_job("b", hooks=(HOOK,)))
    in_the_background = world.events()[1:]
    world.store.calls.call_due()

    assert (awaited, in_the_background, world.events()) == (["created"], [], ["created", "created"])


def test_a_hook_that_fails_is_called_again_after_a_growing_pause_and_the_outcome_stays(world: World) -> None:
    world.hook.failures = [ValueError("first"), OSError("https://u:hidden-1@h is away")]
    world.store.begin(a_job(hooks=(HOOK,)))
    world.store.end("a", JobStatus.FINISHED, rows_written=7, error=None)

    called: list[int] = []
    for _ in range(4):
        world.store.calls.call_due()
        called.append(len(world.hook.calls))
        world.clock.advance(SECOND)

    assert called == [1, 2, 2, 4]
    assert world.events() == ["created", "created", "created", "finished"]
    assert (world.job().status, world.job().rows_written) == (JobStatus.FINISHED, 7)
    assert world.job().hooks[0].error is None


def test_a_failed_call_is_recorded_with_its_error_and_the_next_instant(world: World) -> None:
    world.hook.failures = [OSError("https://u:hidden-1@h is away")]
    world.store.begin(a_job(hooks=(HOOK,)))

    world.store.calls.call_due()

    [hook] = world.job().hooks
    assert (hook.done, hook.failures, hook.retry_at) == ((), 1, NOON + SECOND)
    assert hook.error == "https://u:***@h is away"


def test_an_event_is_given_up_after_the_retries_of_its_hook_and_the_next_one_follows() -> None:
    world = World(RecordingHook(retries=2))
    world.hook.failures = [OSError("away")] * 3
    world.store.begin(a_job(hooks=(HOOK,)))
    world.store.end("a", JobStatus.CANCELED, rows_written=None, error=None)

    for _ in range(4):
        world.store.calls.call_due()
        world.clock.advance(HOUR)

    assert world.events() == ["created", "created", "created", "canceled"]
    [hook] = world.job().hooks
    assert (hook.given_up, hook.done) == ((JobEvent.CREATED,), (JobEvent.CANCELED,))


def test_the_next_gateway_calls_the_hooks_of_one_that_ended_and_of_its_jobs(world: World) -> None:
    dead = world.gateway("dead")
    for job_id in "ab":
        dead.begin(a_job(job_id, hooks=(HOOK,)))
    dead.end("a", JobStatus.FINISHED, rows_written=7, error=None)

    world.store.settle()
    world.store.calls.call_due()

    assert world.hook.calls == [
        ("created", "a", "n"), ("finished", "a", "7"), ("created", "b", "n"), ("failed", "b", LOST),
    ]  # fmt: skip


def test_hooks_of_a_gateway_that_lives_are_its_own_affair(world: World) -> None:
    world.gateway("living").begin(a_job(hooks=(HOOK,)))
    world.lease("living", HOUR)

    world.store.settle()
    world.store.calls.call_due()

    assert world.hook.calls == []


def test_a_hook_that_is_not_installed_any_more_waits_until_it_is(world: World) -> None:
    without = world.gateway("mine", without_hook=True)
    without.begin(a_job(hooks=(HOOK,)))
    without.calls.call_due()
    error = world.job().hooks[0].error
    world.clock.advance(SECOND)

    world.store.calls.call_due()

    assert error is not None
    assert "Job status hook 'recording' is not installed" in error
    assert world.events() == ["created"]


def test_a_hook_can_be_attached_to_a_job_that_runs_and_to_no_other(world: World) -> None:
    world.store.begin(a_job())

    world.store.attach("a", JobHook(name="recording", body={"note": "n"}, done=(JobEvent.CREATED,)))
    world.store.end("a", JobStatus.CANCELED, rows_written=None, error=None)
    world.store.calls.call_due()

    assert world.events() == ["canceled"]
    with pytest.raises(IllegalStatus, match="Job a is not running"):
        world.store.attach("a", HOOK)


def test_the_end_of_a_job_that_a_hook_sees_is_called_once_though_two_threads_look(world: World) -> None:
    calls: list[Callable[[], None]] = [lambda: world.store.calls.call("a")]

    class Reentrant(RecordingHook):
        def on_created(self, job: Job, body: object) -> None:
            calls[0]()
            self.calls.append(("created", job.job_id, ""))

    world.hook = Reentrant()
    world.store = world.gateway("mine")
    world.store.begin(a_job(hooks=(HOOK,)))

    world.store.calls.call_due()

    assert world.events() == ["created"]


def test_a_hook_that_does_not_return_delays_those_of_no_other_job(world: World) -> None:
    second = threading.Event()

    class Slow(RecordingHook):
        def on_created(self, job: Job, body: object) -> None:
            if job.job_id == "a":
                assert second.wait(60)
            else:
                second.set()
            self.calls.append(("created", job.job_id, ""))

    world.hook = Slow()
    world.store = world.gateway("mine")
    for job_id in ("a", "b"):
        world.store.begin(a_job(job_id, hooks=(HOOK,)))

    world.store.calls.call_due()

    assert [job_id for _, job_id, _ in world.hook.calls] == ["b", "a"]


def test_an_unknown_hook_is_refused_with_those_there_are() -> None:
    with pytest.raises(PluginError, match="installed hooks: recording"):
        InstalledHooks({"recording": RecordingHook()}).find("nope")


def test_a_hook_that_failed_while_the_clock_was_days_ahead_is_called_again_at_once(world: World) -> None:
    world.clock.put(timedelta(days=3))
    world.hook.failures = [OSError("away")]
    world.store.begin(a_job(hooks=(HOOK,)))
    world.store.calls.call_due()

    world.clock.put(-timedelta(days=3))
    world.store.calls.wake()
    world.store.calls.call_due()

    assert world.events() == ["created", "created"]
    assert world.job().hooks[0].error is None
