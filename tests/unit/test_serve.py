"""How long a gateway takes to stop: no longer than it is given."""

from __future__ import annotations

import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from mt_core import cli
from mt_core.app import gateway
from mt_core.app.serve import STOP_WITHIN_S, End, end_in_time, ready_text
from mt_core.base import background
from mt_core.clock import SystemClock
from mt_core.errors import WorkflowError
from mt_core.tables.continuous import workers as continuous
from mt_core.tables.refresh import workers as refresh
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.scheduler import SchedulerContext
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.support.manager_world import DAILY, ManagerWorld
from tests.support.memory_registry import MemoryRegistry

ROOT = Path(__file__).parents[2]
JOIN_S = 60.0
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_gateway_that_is_ready_says_where_it_is_and_in_a_second_line_where_its_page_is() -> None:
    url = "http://127.0.0.1:8083"

    first, second = ready_text(url, f"{url}/ui/").splitlines()

    assert first == f"Freshtable gateway ready at {url}"
    assert second == f"Its page is at {url}/ui/"


def test_a_gateway_without_a_page_says_only_where_it_is() -> None:
    assert ready_text("http://127.0.0.1:8083", None) == "Freshtable gateway ready at http://127.0.0.1:8083"


def test_a_stop_that_takes_too_long_ends_the_process(caplog: pytest.LogCaptureFixture) -> None:
    codes: list[int] = []

    end_in_time(0.0, leave=codes.append).join(JOIN_S)

    assert codes == [1]
    assert "the gateway did not stop within 0 s" in caplog.text


def test_a_stop_in_time_ends_nothing() -> None:
    codes: list[int] = []
    stopped = threading.Event()
    stopped.set()

    end_in_time(JOIN_S, stopped, codes.append).join(JOIN_S)

    assert codes == []


def test_whoever_stops_a_gateway_waits_longer_than_it_takes() -> None:
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    page = (ROOT / "docs/how-to/run-in-production.md").read_text(encoding="utf-8")

    assert compose["services"]["gateway"]["stop_grace_period"] == "2m"
    assert STOP_WITHIN_S < 120 <= cli.STOP_WAIT_S
    assert all(
        text in page
        for text in ("TimeoutStopSec=120", "docker stop --time 120", f"at most {STOP_WITHIN_S:.0f}")
    )


def test_a_signal_that_another_thread_receives_ends_the_gateway() -> None:
    end, before = End(), {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    waits = threading.Event()

    def receive() -> None:
        waits.wait(JOIN_S)
        # The main thread waits by then, in all likelihood; the test is right in any case.
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    receiver = threading.Thread(target=receive)
    receiver.start()
    try:
        end.take_signals()
        waits.set()
        end.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        receiver.join(JOIN_S)

    assert end.event.is_set()


class SlowEnds:
    """A clock of joins: each thread that is joined takes all of the time that it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(background.BackgroundLoop, "join", lambda _loop, timeout_s: self._take(timeout_s))
        for module in (continuous, refresh, gateway):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now_s

    def _take(self, timeout_s: float) -> bool:
        self.now_s += timeout_s
        return False


def test_all_that_publishes_has_one_time_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ends = ManagerWorld(), SlowEnds(monkeypatch)

    gateway.drain(
        continuous.ContinuousWorkers(world.services, count=1), refresh.Workers(world.services, count=2)
    )

    assert ends.now_s == gateway.DRAIN_S


def test_a_pass_that_asks_the_scheduler_while_the_gateway_stops_finds_it_open() -> None:
    scheduler, begun, released, answers = (
        MemoryScheduler(),
        threading.Event(),
        threading.Event(),
        list[object](),
    )
    definitions = MemoryRegistry(FakeClock(NOW)).definitions
    scheduler.open(
        SchedulerContext(gateway_url="http://gw", clock=FakeClock(NOW), definitions=definitions, options={})
    )

    def ask() -> None:
        begun.set()
        released.wait(JOIN_S)
        answers.append(scheduler.describe_refresh_workflows([]))

    class Reconciler(background.BackgroundLoop):
        def join(self, timeout_s: float) -> bool:
            released.set()
            return super().join(timeout_s)

    reconciler = Reconciler("reconciler", ask, clock=SystemClock())
    reconciler.start()
    begun.wait(JOIN_S)
    reconciler.end()

    gateway.close_scheduler(scheduler, reconciler)

    assert answers == [{}]
    with pytest.raises(WorkflowError, match="is not open"):
        scheduler.describe_refresh_workflows([])


def test_a_gateway_that_stops_claims_no_run_while_others_finish() -> None:
    world = ManagerWorld()
    workers = refresh.Workers(world.services, count=1)
    world.sql(DAILY)

    workers.end()
    workers.start()
    workers.stop(JOIN_S)

    [run] = world.show("SHOW REFRESHES FOR daily")
    assert run["status"] == "QUEUED"
