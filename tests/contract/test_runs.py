"""The contract of runs, on the manager's requests and on the fake of the session tests."""

from __future__ import annotations

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.sessions.ports import Runs
from mt_core.tables.settings import InitialRefresh
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_commands import FakeRuns
from tests.support.manager_world import DAILY, START, ManagerWorld
from tests.support.runs_contract import RunsContract


class TestRefreshRequests(RunsContract):
    @pytest.fixture
    def runs(self) -> Runs:
        self.world = ManagerWorld(initial_refresh=InitialRefresh.NONE)
        self.world.sql(DAILY)
        return self.world.manager.requests

    def finish(self, runs: Runs, run: RefreshRun) -> None:
        self.world.work()


class TestFakeRuns(RunsContract):
    @pytest.fixture
    def runs(self) -> Runs:
        return FakeRuns(FakeClock(START))

    def finish(self, runs: Runs, run: RefreshRun) -> None:
        assert isinstance(runs, FakeRuns)
        runs.move(run.run_id, RunStatus.RUNNING, RunStatus.SUCCEEDED)
