"""Short ways to tell a history of a ProtocolWorld."""

from __future__ import annotations

from mt_core.model.partition import PartitionSpec
from mt_core.model.run import RefreshRun
from tests.support.observed_engine import Cell
from tests.support.protocol_world import ProtocolWorld, Worker

FIRST, SECOND = "2026-03-01", "2026-03-02"


def partition(day: str) -> PartitionSpec:
    return PartitionSpec.of({"ds": day})


def claimed(world: ProtocolWorld, *, to: str | None = None) -> Worker:
    """Let a worker claim the next run, and pause before the step *to*."""
    worker = world.claim()
    assert worker is not None, "no run can be claimed"
    if to is not None:
        assert world.advance(worker, to=to), f"the worker ended before {to}"
    return worker


def ticked(world: ProtocolWorld) -> RefreshRun:
    return world.tick(world.pass_point())


def requeued_after_publish(world: ProtocolWorld) -> Worker:
    """Let the next run be published by a worker which dies before it can tell the ledger;
    the run is QUEUED again.
    """
    worker = claimed(world, to="published")
    world.crash(worker)
    world.lapse()
    return worker


def holder(world: ProtocolWorld, day: str) -> Cell | None:
    return world.engine.cells().get(partition(day))
