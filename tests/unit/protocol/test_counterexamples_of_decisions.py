"""Skips, due points and requests: the shortest histories that broke earlier drafts of the protocol,
against the real code.
"""

from __future__ import annotations

from mt_core.model.run import RunKind, RunStatus
from tests.support.protocol_world import ProtocolWorld
from tests.unit.protocol.histories import (
    FIRST,
    SECOND,
    claimed,
    holder,
    partition,
    requeued_after_publish,
    ticked,
)

# -------------------------------------------------------------------------------------------------- skip rule


def test_content_found_published_by_a_later_attempt_is_not_taken_for_newer_than_it_is() -> None:
    world = ProtocolWorld()
    point = world.pass_point()
    world.tick(point)
    requeued_after_publish(world)
    world.engine.commit_sources()
    world.finish(claimed(world))

    again = world.tick(point, new_key=True)
    world.drain()

    assert world.run(again.run_id).status is RunStatus.SUCCEEDED
    cell = holder(world, FIRST)
    assert cell is not None
    assert (cell.run_id, cell.version) == (again.run_id, world.engine.positions[-1][cell.source])
    world.settle()


def test_a_partition_that_somebody_else_wrote_is_not_skipped_because_we_published_another_one_since() -> None:
    world = ProtocolWorld()
    point = world.pass_point()
    world.tick(point)
    world.drain()
    world.write_foreign(FIRST)
    ticked(world)
    world.drain()

    again = world.tick(point, new_key=True)
    world.drain()

    assert world.run(again.run_id).status is RunStatus.SUCCEEDED
    cell = holder(world, FIRST)
    assert cell is not None
    assert cell.run_id == again.run_id
    world.settle()


def test_options_of_resume_that_change_no_row_leave_unchanged_sources_skipped() -> None:
    world = ProtocolWorld(partitioned=False)
    ticked(world)
    world.drain()
    world.resume("WITH ('write.spark.fanout.enabled' = 'true')")
    ticked(world)

    world.drain()

    last = world.observer.runs()[-1]
    assert (last.kind, last.status, last.reason) == (RunKind.PERIODIC, RunStatus.SKIPPED, "sources unchanged")
    world.settle()


def test_an_unchanged_partition_leaves_the_run_and_a_changed_one_stays() -> None:
    world = ProtocolWorld()
    first = world.pass_point()
    world.tick(first)
    world.drain()
    again, both = world.tick(first, new_key=True), ticked(world)
    world.drain()

    runs = [world.run(run.run_id) for run in (again, both)]

    assert [run.status for run in runs] == [RunStatus.SUCCEEDED] * 2
    assert runs[0].reason == "new partition (1 of 2 partitions unchanged)"
    assert world.engine.writes == 2
    world.settle()


# ------------------------------------------------------------------------------------------------- due points


def test_a_point_that_passed_while_the_table_was_suspended_heals_after_resume() -> None:
    world = ProtocolWorld()
    world.suspend()
    skipped = ticked(world)
    world.resume()

    following = ticked(world)
    world.drain()

    assert (skipped.status, skipped.decision) == (RunStatus.SKIPPED, "suspended")
    assert world.run(following.run_id).status is RunStatus.SUCCEEDED
    assert holder(world, FIRST) is not None
    world.settle()


def test_the_same_tick_after_resume_is_not_answered_with_the_suspended_run() -> None:
    world = ProtocolWorld()
    point = world.pass_point()
    world.suspend()
    skipped = world.tick(point)
    world.resume()

    again = world.tick(point)
    world.drain()

    assert again.run_id != skipped.run_id
    assert world.run(again.run_id).status is RunStatus.SUCCEEDED
    world.settle()


def test_a_retried_point_of_a_failed_union_takes_itself_only() -> None:
    world = ProtocolWorld()
    world.engine.poisoned = {partition(FIRST)}
    points = [world.pass_point(), world.pass_point()]
    world.tick(points[-1])

    world.drain()

    runs = world.observer.runs()
    assert [(run.points, run.solo, run.status) for run in runs] == [
        ((points[1], points[0]), False, RunStatus.FAILED),
        ((points[1],), True, RunStatus.SUCCEEDED),
        ((points[0],), True, RunStatus.FAILED),
    ]
    world.settle()


def test_a_rebuild_that_failed_stays_due_until_a_run_has_done_it() -> None:
    world = ProtocolWorld()
    ticked(world)
    world.drain()
    world.alter("returns")
    worker = claimed(world, to="write")
    world.fail(worker, "write")
    failed = world.finish(worker)

    following = ticked(world)
    world.drain()

    ended = world.run(following.run_id)
    assert (failed.status, ended.status, ended.scope.whole) == (RunStatus.FAILED, RunStatus.SUCCEEDED, True)
    assert world.table.rebuild_due is None
    world.settle()


def test_a_run_found_published_by_its_earlier_definition_is_not_taken_for_the_rebuild() -> None:
    world = ProtocolWorld()
    whole = world.refresh()
    requeued_after_publish(world)
    world.alter("returns")

    ended = world.finish(claimed(world))
    due = world.table.rebuild_due
    world.drain()

    assert (ended.run_id, ended.status) == (whole.run_id, RunStatus.SUCCEEDED)
    assert due is not None
    assert ended.fingerprint != due
    assert world.table.rebuild_due is None
    world.settle()


# --------------------------------------------------------------------------------------------------- requests


def test_the_same_tick_again_is_attached_to_its_run_until_that_failed() -> None:
    world = ProtocolWorld()
    point = world.pass_point()
    first = world.tick(point)
    waiting = world.tick(point)
    worker = claimed(world, to="write")
    running = world.tick(point)
    world.fail(worker, "write")
    world.finish(worker)

    retried = world.tick(point)
    world.drain()
    done = world.tick(point)

    assert [run.run_id for run in (waiting, running, done)] == [first.run_id, first.run_id, retried.run_id]
    assert [run.status for run in world.observer.runs()] == [RunStatus.FAILED, RunStatus.SUCCEEDED]
    assert retried.retry_of == first.run_id
    world.settle()


def test_a_queued_run_waits_for_the_one_that_is_running() -> None:
    world = ProtocolWorld()
    world.refresh(FIRST)
    worker = claimed(world, to="write")
    world.refresh(SECOND)

    waiting = world.claim()
    world.finish(worker)
    world.drain()

    assert waiting is None
    assert [run.status for run in world.observer.runs()] == [RunStatus.SUCCEEDED] * 2
    world.settle()
