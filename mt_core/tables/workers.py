"""Worker threads: they pull runs from the ledger, carry them out, renew their leases, and pick up what others lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from mt_core.model.run import RunStatus
from mt_core.tables.attempt import Attempt
from mt_core.tables.ledger import Claimed, Ledger
from mt_core.tables.ports import RefreshEngine
from mt_core.tables.signal import Signal

log = logging.getLogger(__name__)
_IDLE_S = 60.0


class Workers:
    """`count` threads for runs and one for leases. `watch` is told the name of every step before it happens."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        engine: RefreshEngine,
        signal: Signal,
        count: int,
        renew_every: timedelta,
        watch: Callable[[Claimed, str], None] | None = None,
    ) -> None:
        self._ledger, self._engine, self._signal = ledger, engine, signal
        self._renew_every = renew_every
        self._watch = watch or _unwatched
        self._stopping = threading.Event()
        self._active: dict[str, Claimed] = {}
        names = [f"refresh-{number}" for number in range(count)]
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in names]
        self._threads.append(threading.Thread(target=self._renew, name="refresh-leases", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Take no new run, let running ones finish for *timeout_s*; what is left over is found again at the next start.

        Harmless when they were never started.
        """
        self._stopping.set()
        self._signal.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s / len(self._threads))

    def run_next(self) -> bool:
        """Claim one run and carry it out in this thread; False if there was none."""
        claimed = self._ledger.claim() if self._engine.ready() else None
        if claimed is None:
            return False
        self._active[claimed.run.run_id] = claimed
        try:
            for step in Attempt(claimed, ledger=self._ledger, engine=self._engine, on_end=self._signal.set).steps():
                self._watch(claimed, step)
        finally:
            self._active.pop(claimed.run.run_id, None)
        self._log_end(claimed)
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._signal.wait(lambda: self._stopping.is_set() or self._safely("refresh", self.run_next), _IDLE_S)

    def _renew(self) -> None:
        while not self._stopping.wait(self._renew_every.total_seconds()):
            self._safely("lease renewal", self._renew_once)

    def _renew_once(self) -> bool:
        for claimed in list(self._active.values()):
            self._ledger.renew_lease(claimed)
        if self._ledger.recover():
            self._signal.set()
        return True

    def _safely(self, what: str, work: Callable[[], bool]) -> bool:
        try:
            return work()
        except Exception:
            log.exception("%s failed", what, extra={"action": "worker_failed"})
            return False

    def _log_end(self, claimed: Claimed) -> None:
        run = self._ledger.shown(claimed.run.run_id)
        if run is None:
            return
        level = logging.WARNING if run.status is RunStatus.FAILED else logging.INFO
        facts = {"action": "refresh_ended", "table": str(claimed.table.identifier), "run": run.run_id}
        outcome = run.error if run.status is RunStatus.FAILED else run.reason
        log.log(level, "refresh of %s %s: %s", claimed.table.identifier, run.status, outcome, extra=facts)


def _unwatched(_claimed: Claimed, _step: str) -> None:
    """Nobody watches."""
