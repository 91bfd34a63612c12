"""Worker threads: carry out runs of the ledger, renew leases, and recover the runs of lost processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from mt_core.base.background import BackgroundLoop
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.tables.refresh.attempt import Attempt
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.runs.losses import losses_of
from mt_core.tables.services import TableServices

_IDLE_S = 60.0
_RUNS = "runs of the ledger"
RENEWALS_PER_LEASE = 3
Watch = Callable[[ClaimedRun, str], None]


def unwatched(_claimed: ClaimedRun, _step: str) -> None:
    """Do nothing."""


class Workers:
    """Threads that carry out runs: *count* threads for the runs, and one that renews leases.

    *watch* is called with the name of each step before the step runs.
    """

    def __init__(self, services: TableServices, *, count: int, watch: Watch | None = None) -> None:
        self._ledger, self._engine, self._signal = services.ledger, services.engine, services.signal
        self._intents = services.intents
        self._changed_tables, self._events = services.changed_tables, services.events
        self._watch = watch or unwatched
        self._active: dict[str, ClaimedRun] = {}
        self._at_work, self._clock = services.at_work, services.clock
        self._workers = [
            BackgroundLoop(f"refresh-{number}", self._work, clock=services.clock) for number in range(count)
        ]
        self._renewal = BackgroundLoop(
            "refresh-leases",
            self._renew,
            clock=services.clock,
            every=services.settings.lease / RENEWALS_PER_LEASE,
        )

    def start(self) -> None:
        for loop in (*self._workers, self._renewal):
            loop.start()

    def end(self) -> None:
        """Stop claiming runs; running ones continue."""
        for loop in self._workers:
            loop.end()
        self._signal.set()

    def stop(self, timeout_s: float) -> None:
        """Stop claiming runs and wait up to *timeout_s* seconds for running ones to finish.

        Runs that do not finish are recovered after the next start. Leases are renewed until the last run has
        ended. Harmless if the workers were never started.
        """
        deadline = time.monotonic() + timeout_s
        self.end()
        for loop in self._workers:
            loop.join(max(0.0, deadline - time.monotonic()))
        self._renewal.end()
        self._renewal.join(max(0.0, deadline - time.monotonic()))

    def run_next(self) -> bool:
        """Claim one run and carry it out in this thread; return False if no run could be claimed."""
        claimed = self._claim() if self._engine.state.ready() else None
        if claimed is None:
            return False
        end, step_done = partial(self._end, claimed), partial(self._events.step_done, claimed.run)
        attempt = Attempt(claimed, ledger=self._ledger, engine=self._engine, on_end=end, on_step=step_done)
        try:
            for step in attempt.steps():
                self._watch(claimed, step)
        finally:
            end()
        return True

    def _claim(self) -> ClaimedRun | None:
        """Claim a run that may begin while other refreshes are running, or return None if there is none.

        A run that must be alone waits until no other is running, and the others wait for it.
        """
        candidates, claimed = list[str](), None

        def may_begin(run: RefreshRun) -> bool:
            candidates.append(run.run_id)
            alone, elapsed = losses_of(run).must_be_alone, self._clock.elapsed()
            return self._at_work.begin(run.run_id, alone=alone, waits_as=_RUNS, elapsed=elapsed)

        try:
            if (claimed := self._ledger.claim(may_begin)) is not None:
                self._active[claimed.run.run_id] = claimed
            return claimed
        finally:
            for run_id in candidates if claimed is None else ():
                self._at_work.end(run_id)
            if not candidates:
                # The run that was waiting to be alone was cancelled, or its table was dropped.
                self._at_work.stop_waiting(_RUNS)

    def _end(self, claimed: ClaimedRun, status: RunStatus | None = None) -> None:
        """Mark a run as ended, so that waiting runs can begin.

        Idempotent, and harmless if another thread has claimed the run in the meantime.
        """
        if status is RunStatus.SUCCEEDED:
            self._changed_tables.put(str(claimed.table.identifier))
        if self._active.get(claimed.run.run_id) is claimed:
            del self._active[claimed.run.run_id]
            self._at_work.end(claimed.run.run_id)
            self._signal.set()

    def _work(self) -> None:
        """Carry out one run, or wait until the ledger changes or the workers stop."""
        self._signal.wait(
            lambda: any(loop.ending.is_set() for loop in self._workers) or self.run_next(), _IDLE_S
        )

    def _renew(self) -> None:
        self._intents.renew()
        self.renew_leases(list(self._active.values()))
        if self._ledger.recover():
            self._signal.set()

    def renew_leases(self, active: Iterable[ClaimedRun]) -> None:
        """Renew the leases of *active* runs and cancel the Spark jobs of runs that exceed their timeout."""
        for claimed in active:
            self._ledger.renew_lease(claimed)
            if self._ledger.is_overdue(claimed):
                # The attempt reads from the ledger why its job was cancelled, as it does after a cancel by
                # the requesters.
                self._engine.jobs.cancel(claimed.run.job_id or "")
