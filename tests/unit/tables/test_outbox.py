"""Notices of ended runs come to a receiver at least once, in order, also if its process is killed."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mt_core.clock import SystemClock
from mt_core.model.partition import WHOLE
from mt_core.model.run import ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.registry.store import SqlRegistry
from mt_core.tables.outbox import LOOK_AGAIN, Outbox
from mt_core.tables.registry import Notice, Registry, in_transaction
from tests.support.manager_world import START, WHOLE_TABLE, ManagerWorld

# The receiver's process is killed when it has received the first notice, before the notice is deleted.
_KILLED = """
import os, signal, sys
from mt_core.clock import SystemClock
from mt_core.registry.store import SqlRegistry
from mt_core.tables.outbox import Outbox

def receive(notice):
    print(notice.body["run_id"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

Outbox(SqlRegistry.open(sys.argv[1]), SystemClock(), receive).deliver_due()
"""


class Receiver:
    """Remembers the ids of the runs whose ends it has accepted; it refuses those in `refused`."""

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.refused: set[str] = set()
        self.tries = 0

    def __call__(self, notice: Notice) -> None:
        self.tries += 1
        if notice.body["run_id"] in self.refused:
            raise ConnectionError("nobody listens at http://user:secret@receiver/")
        self.accepted.append(notice.body["run_id"])


def waiting(registry: Registry) -> list[Notice]:
    with registry.reading() as tx:
        return [*tx.notices.oldest(100)]


def ended_run(registry: Registry, run_id: str) -> None:
    run = RefreshRun(
        run_id=run_id, table_id="t", kind=RunKind.MANUAL, scope=WHOLE, requested_at=START, started_at=START
    )
    in_transaction(registry, lambda tx: tx.runs.insert(run))
    changes = {"finished_at": START, "reason_code": ReasonCode.CANCELLED, "reason": "no longer wanted"}
    in_transaction(
        registry, lambda tx: tx.runs.replace(run.advance(RunStatus.CANCELED, **changes), expected=run)
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/registry.db"


@pytest.fixture
def registry(url: str) -> Iterator[Registry]:
    registry = SqlRegistry.open(url)
    yield registry
    registry.close()


def test_without_a_receiver_no_notice_is_written() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()

    assert waiting(world.registry) == []


def test_each_end_of_a_run_is_delivered_once_in_order_and_says_what_the_ledger_says() -> None:
    world, received = ManagerWorld(), list[Notice]()
    outbox = Outbox(world.registry, world.clock, received.append)
    world.sql(WHOLE_TABLE)
    world.work()
    for hour in (12, 13):
        world.tick(START.replace(hour=hour), "totals")
    world.work()

    outbox.deliver_due()

    runs = {run.run_id: run for run in world.runs("totals")}
    assert sorted(runs) == sorted(notice.body["run_id"] for notice in received)
    assert [notice.number for notice in received] == sorted(notice.number for notice in received)
    for notice in received:
        run = runs[notice.body["run_id"]]
        assert (notice.body["status"], notice.body["kind"]) == (run.status.value, run.kind.value)
        assert (notice.body["reason_code"], notice.body["steps"]) == (run.reason_code, run.steps)
        assert run.finished_at is not None
        assert notice.body["finished_at"] == run.finished_at.isoformat()
    assert waiting(world.registry) == []


def test_a_refused_notice_is_tried_again_after_longer_and_longer_pauses_and_those_behind_it_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, receiver = ManagerWorld(), Receiver()
    outbox = Outbox(world.registry, world.clock, receiver)
    for run_id in ("first", "second", "third"):
        ended_run(world.registry, run_id)
    receiver.refused = {"second"}

    tried_after = list[int]()
    with caplog.at_level(logging.WARNING):
        for second in range(20):
            tries = receiver.tries
            outbox.deliver_due()
            if receiver.tries > tries:
                tried_after.append(second)
            world.clock.advance(timedelta(seconds=1))
    accepted, receiver.refused = list(receiver.accepted), set()
    world.clock.advance(timedelta(minutes=10))
    outbox.deliver_due()

    assert tried_after == [0, 1, 3, 7, 15]
    assert (accepted, receiver.accepted) == (["first"], ["first", "second", "third"])
    assert "secret" not in caplog.text
    assert caplog.messages[1].endswith("the same error as before, 2 times in a row")


def test_the_registry_is_read_when_a_run_has_ended_and_otherwise_only_from_time_to_time() -> None:
    world, receiver = ManagerWorld(), Receiver()
    outbox = Outbox(world.registry, world.clock, receiver)
    outbox.deliver_due()
    ended_run(world.registry, "unheard")

    outbox.deliver_due()
    before = list(receiver.accepted)
    world.clock.advance(LOOK_AGAIN)
    outbox.deliver_due()

    assert (before, receiver.accepted) == ([], ["unheard"])

    world.services.events.subscribe("the outbox", outbox)
    ended_run(world.registry, "heard")
    world.services.events.deliver()
    outbox.deliver_due()

    assert receiver.accepted == ["unheard", "heard"]


@pytest.mark.processes
def test_a_notice_whose_receiver_was_killed_before_it_was_deleted_is_delivered_again(
    url: str, registry: Registry
) -> None:
    receiver = Receiver()
    outbox = Outbox(registry, SystemClock(), receiver)
    for run_id in ("first", "second"):
        ended_run(registry, run_id)

    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, url], capture_output=True, text=True, check=False, timeout=60
    )
    outbox.deliver_due()

    assert (killed.returncode, killed.stdout.split()) == (-signal.SIGKILL, ["first"])
    assert receiver.accepted == ["first", "second"]
    assert waiting(registry) == []
