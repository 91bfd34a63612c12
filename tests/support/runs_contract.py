"""RunsContract: the guarantees to those who request refreshes, as tests for subclasses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.errors import OperationNotFound
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.sessions.ports import Runs
from mt_core.tables.table_commands import RefreshRequest

REQUEST = RefreshRequest(identifier_text="lake.default.daily", is_periodic=False)


class RunsContract:
    """The tests. They require that the table `lake.default.daily` exists."""

    @pytest.fixture
    def runs(self) -> Runs:
        """Return the implementation under test."""
        raise NotImplementedError("Give the contract a fixture runs.")

    def finish(self, runs: Runs, run: RefreshRun) -> None:
        """Execute *run* to its end."""
        raise NotImplementedError("Give the contract a method finish.")

    def test_a_request_queues_a_run(self, runs: Runs) -> None:
        run = runs.request_refresh(REQUEST)

        assert run.status is RunStatus.QUEUED
        assert runs.run(run.run_id) == run
        assert (list(runs.running_jobs()), runs.progress(run.run_id)) == ([], None)

    def test_a_request_with_the_key_of_another_is_the_same_run(self, runs: Runs) -> None:
        first = runs.request_refresh(replace(REQUEST, request_key="k"))

        assert runs.request_refresh(replace(REQUEST, request_key="k")).run_id == first.run_id

    def test_a_key_whose_run_was_cancelled_gives_a_new_run(self, runs: Runs) -> None:
        first = runs.request_refresh(replace(REQUEST, request_key="k"))
        runs.cancel_run(first.run_id)

        assert runs.request_refresh(replace(REQUEST, request_key="k")).run_id != first.run_id

    def test_who_waits_gets_the_run_as_it_ended(self, runs: Runs) -> None:
        run = runs.request_refresh(REQUEST)
        waited = runs.wait_run(run.run_id, 0.01)
        self.finish(runs, run)

        ended = runs.wait_run(run.run_id, 1.0)

        assert waited.status is RunStatus.QUEUED
        assert ended.status is RunStatus.SUCCEEDED
        assert runs.run(run.run_id) == ended

    def test_a_run_that_is_cancelled_before_it_begins_is_canceled_at_once(self, runs: Runs) -> None:
        run = runs.request_refresh(REQUEST)

        assert runs.cancel_run(run.run_id).status is RunStatus.CANCELED
        assert runs.cancel_run(run.run_id).status is RunStatus.CANCELED

    def test_a_cancel_after_the_end_changes_nothing(self, runs: Runs) -> None:
        run = runs.request_refresh(REQUEST)
        self.finish(runs, run)

        assert runs.cancel_run(run.run_id).status is RunStatus.SUCCEEDED

    def test_a_cancel_of_an_attempt_that_a_later_one_has_overtaken_changes_nothing(self, runs: Runs) -> None:
        run = runs.request_refresh(replace(REQUEST, request_key="k", attempt=1))
        runs.request_refresh(replace(REQUEST, request_key="k", attempt=2))

        overtaken, own = runs.cancel_run(run.run_id, 1), runs.cancel_run(run.run_id, 2)

        assert (overtaken.status, own.status) == (RunStatus.QUEUED, RunStatus.CANCELED)

    def test_a_run_that_is_not_there_is_none_and_cannot_be_waited_for(self, runs: Runs) -> None:
        assert (runs.run("none"), runs.progress("none"), runs.job("none")) == (None, None, None)
        with pytest.raises(OperationNotFound):
            runs.wait_run("none", 0.01)
        with pytest.raises(OperationNotFound):
            runs.cancel_run("none")
