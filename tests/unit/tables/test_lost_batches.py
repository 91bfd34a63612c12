"""Batches of CONTINUOUS tables that lose Spark, beside runs of the ledger and each other."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from mt_core.errors import ClusterLost, EngineUnavailable
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshStatus
from mt_core.tables.refresh.workers import Workers
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.runs.losses import ALONE_AFTER, MAX_ATTEMPTS, MAX_LOSSES
from tests.support.manager_world import DAILY
from tests.unit.tables.continuous_table import LIVE, LiveTable

ALONE, BESIDE = EngineUnavailable("Spark went away.", alone=True), EngineUnavailable("Spark went away.")


@pytest.fixture
def world() -> LiveTable:
    """`live`, of which a batch is due, and `daily`, of which a run is queued."""
    world = LiveTable()
    world.look()
    world.sql(DAILY)
    world.append(10)
    return world


def lose(world: LiveTable, lost: Exception, times: int) -> None:
    """Let the next batches of `live` lose Spark, each after the pause that follows the one before."""
    for _ in range(times):
        before = len(world.stretches())
        world.engine.failing["write"] = lost
        for _ in range(1000):
            if "write" not in world.engine.failing:
                break
            world.look(after=1)
        assert len(world.stretches()) in {before, before + 1}


def ends(world: LiveTable) -> list[RunStatus]:
    return [run.status for run in world.stretches()]


def test_batches_that_lose_a_spark_of_their_own_again_and_again_fail(world: LiveTable) -> None:
    lose(world, ALONE, MAX_ATTEMPTS)

    assert ends(world)[-1] is RunStatus.FAILED
    assert world.stretches()[-1].error == f"Refresh of {LIVE} lost its process 3 times: Spark went away."
    assert ends(world)[:-1] == [RunStatus.CANCELED] * (MAX_ATTEMPTS - 1)


def test_batches_that_go_on_losing_a_spark_of_their_own_end_it_less_and_less_often_and_suspend_the_table(
    world: LiveTable,
) -> None:
    lose(world, ALONE, MAX_ATTEMPTS)
    lose(world, ALONE, 4)

    failed = [run for run in world.stretches() if run.status is RunStatus.FAILED]
    finished = [run.finished_at for run in failed if run.finished_at is not None]
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(finished)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 10
    assert pauses[-1] >= 80
    assert (world.table("live").status, world.table("live").status_by) == (
        RefreshStatus.SUSPENDED,
        "5 failed batches in a row",
    )


def test_a_batch_that_is_published_ends_the_losses_in_a_row(world: LiveTable) -> None:
    for amount in range(20, 20 + MAX_ATTEMPTS):
        lose(world, ALONE, MAX_ATTEMPTS - 1)
        world.look(after=5)
        assert world.shows_its_source()
        world.append(amount)

    assert RunStatus.FAILED not in ends(world)


def test_batches_that_lose_a_spark_that_others_used_do_not_fail_until_they_lost_ten(world: LiveTable) -> None:
    lose(world, BESIDE, MAX_LOSSES - 1)
    before = ends(world)
    lose(world, BESIDE, 1)

    assert RunStatus.FAILED not in before
    assert ends(world)[-1] is RunStatus.FAILED
    assert "10 of them next to other work, any of which may be the cause" in (
        world.stretches()[-1].error or ""
    )
    assert not world.stretches()[-1].by_query


def test_the_loss_of_a_cluster_is_no_loss_of_a_batch(world: LiveTable) -> None:
    lose(world, ClusterLost("The cluster takes no work."), MAX_LOSSES + 1)

    assert RunStatus.FAILED not in ends(world)
    world.look(after=5)
    assert world.shows_its_source()


def test_the_loss_of_a_cluster_does_not_fail_a_table_that_lost_spark_often_before(world: LiveTable) -> None:
    lose(world, ALONE, MAX_ATTEMPTS)
    failed = ends(world).count(RunStatus.FAILED)

    lose(world, ClusterLost("The cluster takes no work."), 3)

    assert (failed, ends(world).count(RunStatus.FAILED)) == (1, 1)


def test_a_batch_that_fails_while_spark_goes_on_ends_the_losses_in_a_row(world: LiveTable) -> None:
    lose(world, ALONE, MAX_ATTEMPTS - 1)

    lose(world, RuntimeError("planned"), 1)
    lose(world, ALONE, MAX_ATTEMPTS - 1)

    assert [run.error for run in world.stretches() if run.status is RunStatus.FAILED] == [
        "write failed: planned"
    ]


def test_a_table_that_was_shown_to_end_spark_is_repeated_while_no_run_is_at_work(world: LiveTable) -> None:
    lose(world, ALONE, MAX_ATTEMPTS)
    world.services.at_work.begin("a run", alone=False, waits_as="", elapsed=timedelta(0))

    world.look(after=60)
    beside = world.shows_its_source()
    world.services.at_work.end("a run")
    world.look(after=60)

    assert (beside, world.shows_its_source()) == (False, True)


def test_a_batch_waits_to_be_alone_for_ten_minutes_at_most(world: LiveTable) -> None:
    lose(world, BESIDE, ALONE_AFTER)
    world.services.at_work.begin("a run that hangs", alone=False, waits_as="", elapsed=timedelta(0))
    world.look(after=60)
    world.look(after=590)
    before = world.shows_its_source()

    world.look(after=60)

    assert (before, world.shows_its_source()) == (False, True)


def test_a_batch_that_lost_spark_beside_others_is_repeated_while_no_run_is_at_work(world: LiveTable) -> None:
    lose(world, BESIDE, ALONE_AFTER)
    shown: list[bool] = []

    def watch(_claimed: ClaimedRun, step: str) -> None:
        if step == "write":
            world.look(after=5)
            shown.append(world.shows_its_source())

    workers = Workers(world.services, count=2, watch=watch)
    assert workers.run_next()
    world.look(after=5)

    assert shown == [False]
    assert world.shows_its_source()


def test_no_run_begins_while_a_batch_waits_to_be_alone_or_is(world: LiveTable) -> None:
    lose(world, BESIDE, ALONE_AFTER)
    world.services.at_work.begin("another batch", alone=False, waits_as="", elapsed=timedelta(0))
    world.look(after=5)
    workers, began = Workers(world.services, count=2), list[bool]()

    began.append(workers.run_next())
    world.services.at_work.end("another batch")
    world.when_writing(lambda: began.append(workers.run_next()))
    world.look(after=5)
    began.append(workers.run_next())

    assert began == [False, False, True]
    assert world.shows_its_source()


def test_a_run_that_lost_spark_beside_batches_is_repeated_while_none_is_at_work(world: LiveTable) -> None:
    workers = Workers(world.services, count=2)
    for _ in range(ALONE_AFTER):
        world.engine.failing["write"] = BESIDE
        assert workers.run_next()
    began: list[bool] = []

    world.when_writing(lambda: began.append(workers.run_next()))
    world.look(after=5)
    world.append(11)
    world.look(after=0)
    began.append(workers.run_next())

    assert began == [False, True]
    assert world.runs()[-1].status is RunStatus.SUCCEEDED


@pytest.mark.parametrize(
    "statement", ["DROP MATERIALIZED TABLE live", "ALTER MATERIALIZED TABLE live SUSPEND"]
)
def test_a_table_that_waited_to_be_alone_and_is_kept_no_longer_keeps_no_run_waiting(
    world: LiveTable, statement: str
) -> None:
    lose(world, BESIDE, ALONE_AFTER)
    world.services.at_work.begin("another batch", alone=False, waits_as="", elapsed=timedelta(0))
    world.look(after=5)

    world.sql(statement)
    world.look(after=5)
    world.look(after=5)

    assert Workers(world.services, count=1).run_next()


def test_a_commit_that_is_heard_of_meanwhile_does_not_shorten_the_pause_after_a_loss(
    world: LiveTable,
) -> None:
    lose(world, ALONE, MAX_ATTEMPTS)
    failed = world.clock.now()

    world.append(12)
    world.lookout.notify("lake.default.orders")
    while not world.shows_its_source():
        world.look(after=1)

    assert world.clock.now() - failed >= timedelta(seconds=10)
