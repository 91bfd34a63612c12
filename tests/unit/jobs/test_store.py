from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mt_core.errors import RegistryError
from mt_core.jobs.store import JobStore
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobEvent, JobHook, JobStatus
from mt_core.registry.store import SqlRegistry
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry, MemoryTransaction
from tests.support.registry_facts import HOUR, NOON, a_job


class FailingRegistry(MemoryRegistry):
    """A registry that a test switches off and on."""

    off = False

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        if self.off:
            raise RegistryError("Registry in memory is away.")
        with super().transaction() as transaction:
            yield transaction


class World:
    """One registry, and a gateway on it."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOON)
        self.registry = FailingRegistry(self.clock)
        self.store = self.gateway("mine")

    def gateway(self, owner: str) -> JobStore:
        return JobStore(self.registry, owner=owner, clock=self.clock, history=timedelta(days=7))

    def lease(self, owner: str, length: timedelta) -> None:
        with self.registry.transaction() as transaction:
            transaction.gateways.put(GatewayLease(owner=owner, lease_until=NOON + length))

    def job(self, job_id: str = "a") -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_is_stored_with_its_gateway_and_its_end(world: World) -> None:
    world.store.begin(a_job())
    running = world.job()
    world.clock.advance(HOUR)

    world.store.end("a", JobStatus.FINISHED, rows_written=7, error=None)

    assert running == a_job(owner="mine")
    assert world.job() == replace(
        running, status=JobStatus.FINISHED, rows_written=7, finished_at=NOON + HOUR, revision=1
    )


def test_a_job_that_cannot_be_stored_does_not_begin(world: World) -> None:
    world.registry.off = True

    with pytest.raises(RegistryError):
        world.store.begin(a_job())

    world.registry.off = False
    assert world.store.newest(10) == []


def test_the_end_of_a_job_is_stored_later_when_the_registry_was_away(world: World) -> None:
    world.store.begin(a_job())
    world.registry.off = True

    world.store.end("a", JobStatus.FINISHED, rows_written=7, error=None)

    world.registry.off = False
    world.clock.advance(HOUR)
    assert world.job().status is JobStatus.RUNNING
    assert world.store.settle() == []
    assert (world.job().status, world.job().rows_written, world.job().finished_at) == (
        JobStatus.FINISHED,
        7,
        NOON,
    )


def test_a_job_whose_gateway_ended_has_failed_and_says_what_may_be_left(world: World) -> None:
    for owner, job_id in (("dead", "a"), ("unknown", "b"), ("living", "c"), ("mine", "d")):
        world.gateway(owner).begin(a_job(job_id))
    world.lease("dead", -HOUR)
    world.lease("living", HOUR)

    done = world.store.settle()

    assert done == ["ended job a, whose gateway had ended", "ended job b, whose gateway had ended"]
    assert (world.job().status, world.job().owner, world.job().finished_at) == (
        JobStatus.FAILED,
        "mine",
        NOON,
    )
    assert world.job().error == (
        "the gateway that ran it ended. What it had committed by then stays, and it is not run again: "
        "check its target, then send the statement again if its rows are missing"
    )
    assert [world.job(each).status for each in "cd"] == [JobStatus.RUNNING, JobStatus.RUNNING]
    assert world.store.settle() == []


def test_a_gateway_that_seemed_to_have_ended_does_not_change_the_end_of_its_job(world: World) -> None:
    late = world.gateway("dead")
    late.begin(a_job())
    world.store.settle()
    failed = world.job()

    late.end("a", JobStatus.FINISHED, rows_written=7, error=None)

    assert world.job() == failed


def test_jobs_are_forgotten_after_the_history_but_for_those_with_a_hook_to_call(world: World) -> None:
    for job in (
        a_job("old"),
        a_job("hooked", hooks=(JobHook(name="h", done=(JobEvent.CREATED,)),)),
        a_job("open"),
    ):
        world.store.begin(job)
    for job_id in ("old", "hooked"):
        world.store.end(job_id, JobStatus.FINISHED, rows_written=None, error=None)
    world.clock.advance(timedelta(days=7))
    assert world.store.forget_old() == 0
    world.clock.advance(timedelta(seconds=1))

    assert world.store.forget_old() == 1

    assert {job.job_id for job in world.store.newest(10)} == {"hooked", "open"}


def test_a_job_that_cannot_be_read_says_why_and_hides_no_other(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    registry = SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db", clock)
    store = JobStore(registry, owner="mine", clock=clock)
    for job_id in ("a", "b"):
        store.begin(a_job(job_id))
    with closing(sqlite3.connect(tmp_path / "registry.db")) as connection, connection:
        connection.execute("UPDATE jobs SET body = '{}' WHERE job_id = 'b'")

    broken, whole = store.newest(10)

    assert (whole.job_id, whole.name) == ("a", a_job("a").name)
    assert (broken.job_id, broken.status, broken.started_at) == ("b", JobStatus.RUNNING, whole.started_at)
    assert broken.name == broken.error
    assert broken.name.startswith("cannot be read: The registry's row of job b has version None")
    registry.close()
