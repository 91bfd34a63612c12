from __future__ import annotations

from concurrent.futures import wait
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from mt_core.errors import EngineError, QueryFailed
from mt_core.jobs.store import JobStore
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobStatus
from mt_core.model.stream import StopRequest, StreamState
from mt_core.model.stream_plan import StreamPlan
from mt_core.streaming import lifecycle
from mt_core.streaming.owner import STARTS_A_PASS, StreamOwner
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_streams import FakeStreams
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import HOUR, NOON, a_job, a_stream

DAY = timedelta(days=1)


class World:
    """One registry, one engine, and the gateways of a test, one after the other."""

    def __init__(self, most_running: int = 50) -> None:
        self.clock, self.engine, self.most_running = FakeClock(NOON), FakeStreams(), most_running
        self.registry = MemoryRegistry(self.clock)
        self.begin_gateway("first")

    def begin_gateway(self, owner: str) -> None:
        """Begin a gateway in place of the one before, whose lease has ended."""
        with self.registry.transaction() as transaction:
            for lease in transaction.gateways.all():
                transaction.gateways.put(replace(lease, lease_until=NOON))
            transaction.gateways.put(GatewayLease(owner=owner, lease_until=NOON + 365 * DAY))
        self.store = JobStore(self.registry, owner=owner, clock=self.clock)
        self.owner = StreamOwner(
            self.store,
            self.engine,
            clock=self.clock,
            ready=lambda: self.engine.available,
            most_running=self.most_running,
        )
        self.store.settle()

    def submit(self, *job_ids: str) -> None:
        for job_id in job_ids:
            definition = a_stream(checkpoint=f"checkpoints/{job_id}")
            self.store.begin(a_job(job_id, status=JobStatus.CREATED, definition=definition))

    def passes(self, number: int = 1) -> None:
        """Let the owner look *number* times, a second after the other."""
        for _ in range(number):
            self.clock.advance(timedelta(seconds=1))
            wait(self.owner.pass_over())

    def stop(self, job_id: str = "a", request: StopRequest = StopRequest()) -> None:  # noqa: B008 - frozen
        self.store.update(job_id, lambda job: lifecycle.stop_requested(job, request))

    def job(self, job_id: str = "a") -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job

    def state(self, job_id: str = "a") -> StreamState:
        return lifecycle.state_of(self.job(job_id))


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_runs_and_its_row_says_how_far_it_has_come(world: World) -> None:
    world.engine.source += ["x", "y"]
    world.submit("a")

    world.passes()
    world.engine.run_batches()
    world.passes(6)

    job = world.job()
    assert (job.status, job.restarts, job.rows_read, job.rows_written) == (JobStatus.RUNNING, 0, 2, 2)
    assert (world.state().batch, world.state().offsets) == (0, '{"rows": 2}')
    assert world.engine.attempts == {"a": [1]}


def test_progress_is_stored_at_most_each_five_seconds(world: World) -> None:
    world.submit("a")
    world.passes()
    before = world.job().revision

    for number in range(20):
        world.engine.source.append(str(number))
        world.engine.run_batches()
        world.passes()

    assert world.job().revision - before == 4


def test_a_job_of_a_gateway_that_ended_goes_on_where_it_was_as_another_attempt(world: World) -> None:
    world.engine.source.append("x")
    world.submit("a")
    world.passes()
    world.engine.run_batches()
    world.passes(6)

    world.engine.lose(available=True)
    world.begin_gateway("second")
    taken_over = world.job()
    world.engine.source.append("y")
    world.passes()
    world.engine.run_batches()
    world.passes(6)

    assert (taken_over.status, taken_over.owner, taken_over.error) == (JobStatus.RESTARTING, "second", None)
    assert (world.job().status, world.job().restarts, world.job().rows_written) == (JobStatus.RUNNING, 1, 2)
    assert world.engine.sink == ["x", "y"]
    assert world.engine.attempts == {"a": [1, 2]}


def test_a_job_restarts_with_a_growing_pause_and_fails_after_ten_restarts_without_a_batch(
    world: World,
) -> None:
    world.submit("a")
    world.passes()
    starts = [world.clock.now()]

    while world.job().status is not JobStatus.FAILED:
        if "a" in world.engine.running():
            world.engine.fail("a", "no space left on device")
        attempts = len(world.engine.attempts["a"])
        world.passes()
        if len(world.engine.attempts["a"]) > attempts:
            starts.append(world.clock.now())

    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
    assert len(pauses) == 10
    assert pauses == sorted(pauses)
    assert pauses[0] <= 3
    assert 60 <= pauses[-1] <= 63
    assert world.job().error == "no space left on device (after 10 restarts without a batch)"
    assert (world.job().restarts, world.job().finished_at) == (10, world.clock.now())


def test_a_batch_begins_the_count_of_restarts_anew(world: World) -> None:
    world.submit("a")

    for number in range(15):
        world.passes(3)
        world.engine.source.append(str(number))
        world.engine.run_batches()
        world.engine.fail("a", "no space left on device")
    world.passes(3)

    job = world.job()
    assert (job.status, job.error, world.state().failures) == (
        JobStatus.RUNNING,
        "no space left on device",
        1,
    )
    world.engine.source.append("z")
    world.engine.run_batches()
    world.passes(6)
    assert (world.job().error, world.state().failures) == (None, 0)
    assert world.engine.sink == world.engine.source
    assert world.job().rows_written == 16


def test_a_stream_without_new_rows_survives_any_number_of_failures_that_are_far_apart(world: World) -> None:
    world.submit("a")

    for _ in range(12):
        world.passes(3)
        world.clock.advance(HOUR)
        world.engine.fail("a", "the cluster went away")
        world.passes(3)

    assert world.job().status is JobStatus.RUNNING


def test_a_stream_without_new_rows_survives_any_number_of_losses_of_a_spark_that_others_use(
    world: World,
) -> None:
    world.submit("a")

    for _ in range(12):
        world.passes(3)
        world.engine.lose(available=True, bystanders=True)
        world.passes(3)

    assert (world.job().status, world.job().restarts, world.state().failures) == (JobStatus.RUNNING, 12, 0)


def test_a_stream_whose_batch_loses_spark_each_time_fails_in_the_end(world: World) -> None:
    world.submit("a")

    for _ in range(12):
        world.passes(65)
        world.engine.lose(available=True)
        world.passes()

    assert world.job().status is JobStatus.FAILED
    assert world.job().error == "Spark ended while the stream ran (after 10 restarts without a batch)"


def test_an_error_that_no_start_mends_ends_the_job_at_once(world: World) -> None:
    world.submit("a")
    world.passes()
    world.engine.fail("a", "table lake.default.flights was dropped", final=True)

    world.passes()

    assert (world.job().status, world.job().error) == (
        JobStatus.FAILED,
        "table lake.default.flights was dropped",
    )
    assert world.engine.attempts == {"a": [1]}


def test_a_job_that_lacks_a_jar_is_suspended_with_the_reason_and_goes_on_when_it_is_back(
    world: World,
) -> None:
    world.engine.source.append("x")
    world.submit("a")
    world.passes()
    world.engine.run_batches()
    world.passes(6)
    world.engine.absent["a"] = "There is no jar /home/jars/1.jar."
    world.engine.lose(available=True)
    world.begin_gateway("second")

    world.passes(600)
    suspended = world.job()
    del world.engine.absent["a"]
    world.engine.source.append("y")
    world.passes(33)
    world.engine.run_batches()
    world.passes(6)

    assert (suspended.status, suspended.error) == (JobStatus.SUSPENDED, "There is no jar /home/jars/1.jar.")
    # To look for it is no start.
    assert (suspended.restarts, world.engine.attempts) == (1, {"a": [1, 2 + 1]})
    assert (world.job().status, world.job().error, world.state().start_at) == (JobStatus.RUNNING, None, None)
    assert world.engine.sink == ["x", "y"]


def test_a_job_that_was_suspended_while_the_clock_was_days_ahead_is_looked_at_soon(world: World) -> None:
    world.submit("a")
    world.engine.run_batches()
    world.passes()
    world.engine.absent["a"] = "There is no jar /home/jars/1.jar."
    world.clock.put(timedelta(days=3))
    world.engine.lose(available=True)
    world.begin_gateway("second")
    world.passes(60)
    suspended = world.job().status
    del world.engine.absent["a"]

    world.clock.put(-timedelta(days=3))
    world.passes(3)

    assert (suspended, world.job().status) == (JobStatus.SUSPENDED, JobStatus.RUNNING)


def test_a_stop_that_comes_while_a_job_is_suspended_is_not_forgotten(world: World) -> None:
    world.submit("a")
    world.engine.absent["a"] = "There is no jar /home/jars/1.jar."
    world.passes(2)
    world.stop()

    world.passes()

    assert (world.job().status, world.engine.running()) == (JobStatus.CANCELED, set())


def test_a_stream_that_keeps_a_table_waits_for_its_resume_when_its_checkpoint_is_gone(world: World) -> None:
    definition = a_stream(checkpoint="checkpoints/a", keeps="t" * 32, plan=StreamPlan())
    world.store.begin(a_job("a", status=JobStatus.CREATED, definition=definition))
    world.passes(3)
    suspended = world.job()
    world.engine.checkpoints["checkpoints/a"] = (0, 0)
    world.passes(100)
    waiting = world.job().status

    world.store.update("a", lifecycle.resumed)
    world.passes()

    assert (suspended.status, suspended.error) == (
        JobStatus.SUSPENDED,
        "There is no checkpoint checkpoints/a.",
    )
    assert (waiting, world.job().status) == (JobStatus.SUSPENDED, JobStatus.RUNNING)


def test_a_stream_that_cannot_start_is_tried_again(world: World) -> None:
    refusals = [QueryFailed("the catalog is away")]
    world.engine.on_start = lambda: _raise(refusals)
    world.submit("a")

    world.passes(2)
    restarting = world.job()
    world.passes(2)

    assert (restarting.status, restarting.error) == (JobStatus.RESTARTING, "the catalog is away")
    assert (world.job().status, world.job().restarts) == (JobStatus.RUNNING, 1)


def test_a_stream_that_has_read_all_of_its_sources_has_finished(world: World) -> None:
    world.engine.source.append("x")
    world.submit("a")
    world.passes()
    world.engine.run_batches()
    world.engine.finish("a")

    world.passes()

    assert (world.job().status, world.job().rows_written) == (JobStatus.FINISHED, 1)


def test_jobs_wait_for_spark_and_start_one_after_the_other(world: World) -> None:
    world.engine.available = False
    world.submit("a", "b", "c")
    world.passes(3)
    before = [world.job(each).status for each in "abc"]

    world.engine.available = True
    world.passes()
    first = world.engine.running()
    world.passes()

    assert before == [JobStatus.CREATED] * 3
    assert len(first) == STARTS_A_PASS == 2
    assert world.engine.running() == {"a", "b", "c"}


def test_a_lost_engine_lets_its_jobs_restart_and_a_lost_engine_that_stays_away_costs_no_restart(
    world: World,
) -> None:
    world.submit("a", "b")
    world.passes()

    world.engine.lose()
    world.passes(200)
    lost = [world.job(each) for each in "ab"]
    world.engine.available = True
    world.passes()

    assert {(job.status, job.error, job.restarts) for job in lost} == {
        (JobStatus.RESTARTING, "Spark ended while the stream ran", 0)
    }
    assert world.engine.running() == {"a", "b"}
    assert world.engine.attempts == {"a": [1, 2], "b": [1, 2]}


def test_a_stop_that_waits_for_spark_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.submit("a", "b")
    world.passes()
    world.engine.lose()
    world.stop("a")
    world.stop("b")

    world.passes(20)
    waiting = [
        record.getMessage() for record in caplog.records if "is not stopped yet" in record.getMessage()
    ]
    world.engine.available = True
    world.passes()

    assert sorted(waiting) == [
        f"job {each} is not stopped yet: Spark is starting; try again." for each in "ab"
    ]
    assert [world.job(each).status for each in "ab"] == [JobStatus.CANCELED, JobStatus.CANCELED]


def test_what_the_last_batch_of_a_stop_read_is_counted(world: World) -> None:
    world.submit("a")
    world.passes()
    world.engine.source += ["x", "y"]
    world.stop(request=StopRequest(savepoint="savepoints/s", drain=True))

    world.passes()

    job = world.job()
    assert (job.status, job.rows_read, job.rows_written) == (JobStatus.FINISHED, 2, 2)


def test_the_end_of_spark_with_its_gateway_is_no_failure(world: World) -> None:
    world.submit("a", "b")
    world.passes()
    before = world.job()

    world.owner.close()
    world.engine.lose()
    world.passes(2)

    assert world.job() == before


def test_no_more_jobs_run_than_may_and_the_others_take_their_places(world: World) -> None:
    world = World(most_running=2)
    world.submit("a", "b", "c")
    world.passes(3)
    running = world.engine.running()

    world.stop("a")
    world.passes(3)

    assert running == {"a", "b"}
    assert world.engine.running() == {"b", "c"}
    assert [world.job(each).status for each in "abc"] == [
        JobStatus.CANCELED,
        JobStatus.RUNNING,
        JobStatus.RUNNING,
    ]


def test_a_job_that_is_stopped_is_canceled_and_keeps_its_checkpoint_for_the_history(world: World) -> None:
    world.submit("a")
    world.passes()
    world.stop()

    world.passes()
    kept = dict(world.engine.checkpoints)
    world.clock.advance(8 * DAY)
    forgotten = world.owner.forget_old(), world.store.forget_old()

    assert kept == {"checkpoints/a": (0, 0)}
    assert forgotten == (1, 1)
    assert (world.engine.checkpoints, world.store.get("a")) == ({}, None)


def test_the_checkpoint_of_a_job_in_the_history_is_kept_and_a_savepoint_for_ever(world: World) -> None:
    world.submit("a")
    world.passes()
    world.stop(request=StopRequest(savepoint="savepoints/s"))
    world.passes()

    world.clock.advance(6 * DAY)
    assert (world.owner.forget_old(), world.store.forget_old()) == (0, 0)
    world.clock.advance(2 * DAY)
    assert (world.owner.forget_old(), world.store.forget_old()) == (1, 1)

    assert world.engine.savepoints == {"savepoints/s": (0, 0)}


def test_a_job_that_waits_for_its_place_can_be_stopped(world: World) -> None:
    world.engine.available = False
    world.submit("a")
    world.passes()
    world.stop()
    world.passes()

    assert world.job().status is JobStatus.CREATED
    world.engine.available = True
    world.passes()

    assert world.job().status is JobStatus.CANCELED
    assert world.engine.attempts == {}


def test_a_savepoint_is_the_last_that_a_job_does_and_drain_reads_all_rows_first(world: World) -> None:
    world.submit("a", "b")
    world.passes(2)
    world.engine.source += ["x", "y"]
    world.stop("a", StopRequest(savepoint="savepoints/a", drain=True))
    world.passes()
    world.stop("b", StopRequest(savepoint="savepoints/b"))

    world.passes()

    assert [(world.job(each).status, world.state(each).savepoint) for each in "ab"] == [
        (JobStatus.FINISHED, "savepoints/a"),
        (JobStatus.FINISHED, "savepoints/b"),
    ]
    assert world.engine.savepoints == {"savepoints/a": (2, 1), "savepoints/b": (0, 0)}
    assert world.engine.running() == set()


def test_a_gateway_that_ends_between_the_copy_and_the_row_loses_no_savepoint_and_does_not_run_the_job_on(
    world: World,
) -> None:
    world.engine.source.append("x")
    world.submit("a")
    world.passes()
    world.engine.run_batches()
    world.stop(request=StopRequest(savepoint="savepoints/s"))
    world.engine.after_copy = lambda: _raise([RuntimeError("killed")])
    world.passes()
    between = world.job()

    world.engine.after_copy = lambda: None
    world.engine.lose(available=True)
    world.begin_gateway("second")
    world.engine.source.append("y")
    world.passes()

    assert (between.status, world.engine.savepoints) == (JobStatus.RUNNING, {"savepoints/s": (1, 1)})
    assert (world.job().status, world.state().savepoint) == (JobStatus.FINISHED, "savepoints/s")
    assert world.engine.attempts == {"a": [1]}
    assert world.engine.sink == ["x"]


def test_a_savepoint_that_fails_leaves_the_job_running_and_says_why(world: World) -> None:
    world.submit("a")
    world.passes()
    world.engine.after_copy = lambda: _raise([EngineError("savepoints/ is read-only")])
    world.stop(request=StopRequest(savepoint="savepoints/s"))

    world.passes(2)

    assert (world.job().status, world.state().stop) == (JobStatus.RUNNING, None)
    assert world.state().refused == "savepoints/ is read-only"
    assert world.engine.running() == {"a"}


def test_a_stop_does_not_forget_the_savepoint_that_was_asked_for_before(world: World) -> None:
    world.submit("a")
    world.passes()
    world.stop(request=StopRequest(savepoint="savepoints/s"))
    world.stop()

    world.passes()

    assert (world.job().status, world.state().savepoint) == (JobStatus.FINISHED, "savepoints/s")


def _raise(errors: list[Exception]) -> None:
    if errors:
        raise errors.pop()
