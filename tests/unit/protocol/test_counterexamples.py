"""Ends, fencing and lost answers: the shortest histories that broke earlier drafts of the protocol,
against the real code.
"""

from __future__ import annotations

from mt_core.model.run import RunStatus
from mt_core.tables.refresh.publication import MAX_RESTARTS
from tests.support.observed_engine import Cell
from tests.support.protocol_world import ProtocolWorld
from tests.unit.protocol.histories import FIRST, SECOND, claimed, holder, requeued_after_publish, ticked

# ------------------------------------------------------------------------------------- ends of published runs


def test_a_published_run_whose_process_died_is_never_recorded_skipped() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    requeued_after_publish(world)

    ended = world.finish(claimed(world))

    assert (ended.run_id, ended.status, ended.attempt) == (run.run_id, RunStatus.SUCCEEDED, 2)
    assert ended.snapshot_id == world.engine.storage.main
    assert world.engine.writes == 1
    world.settle()


def test_a_run_published_by_its_last_attempt_is_not_failed_for_losing_its_process_too_often() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    for _ in range(2):
        world.crash(claimed(world, to="publish: commit"))
        world.lapse()
    requeued_after_publish(world)

    ended = world.finish(claimed(world))

    assert (ended.run_id, ended.status, ended.error) == (run.run_id, RunStatus.SUCCEEDED, None)
    world.settle()


def test_a_run_that_lost_its_process_three_times_is_failed_and_no_zombie_of_it_can_publish() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    zombies = []
    for _ in range(3):
        zombies.append(claimed(world, to="publish: commit"))
        world.lapse()

    ended = world.finish(claimed(world))
    for zombie in zombies:
        world.finish(zombie)

    assert (ended.run_id, ended.status) == (run.run_id, RunStatus.FAILED)
    assert ended.error == "Refresh of lake.default.daily lost its process 3 times."
    assert (world.observer.published, world.engine.storage.branches) == ({}, {})
    world.settle()


def test_a_published_run_that_is_queued_again_is_not_canceled_at_once() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    requeued_after_publish(world)

    canceled = world.cancel(run.run_id)
    ended = world.finish(claimed(world))

    assert canceled.status is RunStatus.QUEUED
    assert ended.status is RunStatus.SUCCEEDED
    world.settle()


def test_a_request_is_not_coalesced_into_a_published_run_that_is_queued_again() -> None:
    world = ProtocolWorld()
    world.refresh(FIRST)
    requeued_after_publish(world)

    whole = world.refresh()
    world.drain()

    assert [run.status for run in world.observer.runs()] == [RunStatus.SUCCEEDED] * 2
    assert world.run(whole.run_id).scope.whole
    assert holder(world, SECOND) is not None
    world.settle()


def test_a_publish_that_lands_after_its_error_cannot_land_once_the_run_was_canceled() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    worker = claimed(world, to="publish: commit")
    world.lose_answer(worker, "late")
    world.cancel(run.run_id)

    ended = world.finish(worker)
    landed = world.land()

    assert (ended.status, landed, world.observer.published) == (RunStatus.CANCELED, False, {})
    world.settle()


def test_a_publish_that_lands_after_its_worker_died_is_found() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    worker = claimed(world, to="publish: commit")
    world.lose_answer(worker, "late")
    world.crash(worker)
    world.lapse()

    landed = world.land()
    ended = world.finish(claimed(world))

    assert landed
    assert (ended.run_id, ended.status) == (run.run_id, RunStatus.SUCCEEDED)
    world.settle()


# ----------------------------------------------------------------------------------------------- lost answers


def test_a_run_decides_again_after_a_foreign_write() -> None:
    world = ProtocolWorld()
    ticked(world)
    worker = claimed(world, to="publish: read")
    world.write_foreign(SECOND)

    ended = world.finish(worker)

    assert (ended.status, ended.attempt, world.engine.writes) == (RunStatus.SUCCEEDED, 1, 2)
    assert holder(world, SECOND) == Cell(run_id=None)
    world.settle()


def test_a_publish_whose_answer_was_lost_is_read_again_and_not_published_twice() -> None:
    world = ProtocolWorld()
    ticked(world)
    worker = claimed(world, to="publish: commit")
    world.lose_answer(worker, "landed")

    ended = world.finish(worker)

    assert (ended.status, world.engine.writes) == (RunStatus.SUCCEEDED, 1)
    world.settle()


def test_a_publish_that_landed_keeps_its_files_though_it_was_reported_as_a_conflict() -> None:
    """Clients repeat a commit without an answer, and report that the repeated one has failed."""
    world = ProtocolWorld()
    ticked(world)
    worker = claimed(world, to="publish: commit")
    world.lose_answer(worker, "conflict")

    ended = world.finish(worker)

    assert (ended.status, ended.snapshot_id) == (RunStatus.SUCCEEDED, world.engine.storage.main)
    assert (world.engine.writes, world.engine.discarded) == (1, [])
    world.settle()


def test_a_close_whose_answer_was_lost_is_repeated() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    world.crash(claimed(world, to="publish: commit"))
    world.lapse()
    worker = claimed(world, to="publish: read")
    world.cancel(run.run_id)
    world.advance(worker, to="close: commit")
    world.lose_answer(worker, "landed")

    ended = world.finish(worker)

    assert (ended.status, world.engine.storage.branches) == (RunStatus.CANCELED, {})
    world.settle()


def test_a_canceled_run_whose_commits_had_an_answer_commits_nothing_but_the_end_of_its_branch() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    worker = claimed(world, to="publish: read")
    before = (world.engine.storage.main, world.engine.storage.epoch)
    world.cancel(run.run_id)

    ended = world.finish(worker)

    storage = world.engine.storage
    assert (ended.status, storage.branches) == (RunStatus.CANCELED, {})
    assert (storage.main, storage.epoch) == before
    world.settle()


def test_a_run_that_gives_up_on_foreign_writes_names_the_snapshot_and_leaves_no_branch() -> None:
    world = ProtocolWorld()
    ticked(world)
    worker = claimed(world)
    for _ in range(MAX_RESTARTS + 1):
        world.advance(worker, to="publish: read")
        world.write_foreign(SECOND)
        world.advance(worker, to="decide")

    foreign = world.engine.storage.main
    ended = world.finish(worker)

    assert ended.status is RunStatus.FAILED
    assert f"(now at snapshot {foreign})" in (ended.error or "")
    assert (world.engine.storage.main, world.engine.storage.branches) == (foreign, {})
    world.settle()


def test_a_foreign_write_between_decide_and_write_is_kept() -> None:
    world = ProtocolWorld()
    ticked(world)
    worker = claimed(world, to="write")
    world.write_foreign(SECOND)

    ended = world.finish(worker)

    assert (ended.status, world.engine.writes) == (RunStatus.SUCCEEDED, 2)
    assert holder(world, SECOND) == Cell(run_id=None)
    world.settle()


# ---------------------------------------------------------------------------------------------------- fencing


def test_what_a_zombie_publishes_before_its_successor_commits_is_found() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    zombie = claimed(world, to="publish: commit")
    world.lapse()
    successor = claimed(world, to="publish: commit")

    world.finish(zombie)
    published = world.engine.storage.main
    ended = world.finish(successor)

    assert (ended.run_id, ended.status, ended.attempt) == (run.run_id, RunStatus.SUCCEEDED, 2)
    assert (ended.snapshot_id, world.engine.storage.main) == (published, published)
    world.settle()


def test_a_zombie_does_not_publish_on_what_it_read_before_its_successor_published() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    zombie = claimed(world, to="publish: commit")
    world.lapse()
    ended = world.finish(claimed(world))
    before = world.engine.storage.main

    world.finish(zombie)

    assert (ended.run_id, ended.status, ended.attempt) == (run.run_id, RunStatus.SUCCEEDED, 2)
    assert world.engine.storage.main == before
    world.settle()


def test_a_recomputation_is_not_published_over_a_run_that_it_has_overtaken() -> None:
    world = ProtocolWorld()
    points = [world.pass_point(), world.pass_point()]
    world.tick(points[-1])
    union = claimed(world, to="write")
    world.fail(union, "write")
    world.finish(union)
    zombie = claimed(world, to="publish: commit")
    single = zombie.claimed.run.run_id
    world.lapse()
    # Single retries are claimed after all other runs, also when they are queued again.
    whole = world.refresh()
    overtaking = claimed(world, to="publish: read")

    world.finish(zombie)
    world.finish(overtaking)
    world.drain()

    assert [world.run(each).status for each in (single, whole.run_id)] == [RunStatus.SUCCEEDED] * 2
    world.settle()


def test_a_publish_on_its_way_from_a_zombie_does_not_land_after_the_publish_of_its_successor() -> None:
    world = ProtocolWorld()
    ticked(world)
    zombie = claimed(world, to="publish: commit")
    world.lose_answer(zombie, "late")
    world.lapse()
    ended = world.finish(claimed(world))
    before = world.engine.storage.main

    landed = world.land()

    assert (ended.status, landed, world.engine.storage.main) == (RunStatus.SUCCEEDED, False, before)
    world.settle()


def test_maintenance_waits_for_a_running_refresh() -> None:
    world = ProtocolWorld()
    ticked(world)
    worker = claimed(world, to="write")

    during = world.maintain()
    ended = world.finish(worker)
    after = world.maintain()

    assert (during, ended.status, after) == (False, RunStatus.SUCCEEDED, True)
    world.settle()


def test_what_a_zombie_publishes_after_maintenance_is_found() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    zombie = claimed(world, to="publish: read")
    world.lapse()

    maintained = world.maintain()
    world.finish(zombie)
    published = world.engine.storage.main
    ended = world.finish(claimed(world))

    assert (maintained, ended.run_id, ended.status) == (True, run.run_id, RunStatus.SUCCEEDED)
    assert world.engine.storage.main == published
    world.settle()


def test_rows_that_a_zombie_wrote_late_are_not_published_by_its_successor() -> None:
    world = ProtocolWorld()
    ticked(world)
    zombie = claimed(world, to="write")
    world.lapse()
    world.engine.commit_sources()
    successor = claimed(world, to="publish: read")

    world.advance(zombie, to="publish: read")
    ended = world.finish(successor)
    world.finish(zombie)

    cell = holder(world, FIRST)
    assert ended.status is RunStatus.SUCCEEDED
    assert cell is not None
    assert cell.version == world.engine.positions[-1][cell.source]
    world.settle()


def test_a_table_in_the_middle_of_a_refresh_of_an_earlier_release_is_carried_on() -> None:
    """Release 0.1.0 set the epoch and made a branch before it wrote."""
    world = ProtocolWorld()
    run = ticked(world)
    worker = claimed(world, to="write")
    storage, name = world.engine.storage, f"run_{run.run_id.replace('-', '')}_1"
    storage.epoch, storage.branches[name] = worker.claimed.run.claim, storage.main
    world.crash(worker)
    world.lapse()

    ended = world.finish(claimed(world))

    assert (ended.run_id, ended.status, ended.attempt) == (run.run_id, RunStatus.SUCCEEDED, 2)
    assert (storage.branches, storage.epoch > worker.claimed.run.claim) == ({}, True)
    world.settle()


def test_a_worker_of_the_process_before_cannot_end_a_run_of_the_next_one() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    zombie = claimed(world, to="end")
    world.begin_new_process(zombies=True)

    world.finish(zombie)
    requeued = world.run(run.run_id)
    world.drain()

    assert (requeued.status, requeued.attempt) == (RunStatus.QUEUED, 2)
    assert world.run(run.run_id).status is RunStatus.SUCCEEDED
    assert world.engine.writes == 1
    world.settle()


# --------------------------------------------------------------------------------------------- other failures


def test_a_published_run_is_not_failed_because_its_next_attempt_cannot_read_the_storage_at_first() -> None:
    world = ProtocolWorld()
    ticked(world)
    requeued_after_publish(world)
    worker = claimed(world, to="decide")

    world.fail(worker, "load")
    ended = world.finish(worker)

    assert ended.status is RunStatus.SUCCEEDED
    world.settle()


def test_a_zombie_cannot_publish_after_a_later_attempt_failed() -> None:
    world = ProtocolWorld()
    run = ticked(world)
    zombie = claimed(world, to="publish: read")
    world.lapse()
    successor = claimed(world, to="decide")
    world.fail(successor, "load")
    ended = world.finish(successor)
    before = world.engine.storage.main

    world.finish(zombie)

    assert (ended.run_id, ended.status) == (run.run_id, RunStatus.FAILED)
    assert world.engine.storage.main == before
    world.settle()


def test_a_cancel_after_the_end_changes_nothing() -> None:
    world = ProtocolWorld()
    host, covered = world.refresh(FIRST), world.refresh(SECOND)
    world.drain()
    before = world.observer.runs()

    shown = [world.cancel(run.run_id).status for run in (host, covered)]

    assert shown == [RunStatus.SUCCEEDED] * 2
    assert world.observer.runs() == before
    world.settle()


def test_a_rebuild_is_not_due_for_ever_after_resume_changed_the_options() -> None:
    world = ProtocolWorld()
    world.suspend()
    world.alter("returns")
    world.resume("WITH ('write.spark.fanout.enabled' = 'true')")
    ticked(world)
    world.drain()

    following = ticked(world)
    world.drain()

    assert world.table.rebuild_due is None
    assert not world.run(following.run_id).scope.whole
    world.settle()
