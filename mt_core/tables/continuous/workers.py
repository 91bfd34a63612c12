"""The threads of continuous refresh.

One thread runs the source watcher, one wakes it after commits, one compacts tables, and one renews leases. A
pool of threads carries out batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

from mt_core.base.background import BackgroundLoop, attempt
from mt_core.errors import EngineUnavailable
from mt_core.tables.continuous.source_watcher import SourceWatcher
from mt_core.tables.refresh.workers import RENEWALS_PER_LEASE, Watch
from mt_core.tables.services import TableServices

READ_EVERY = timedelta(milliseconds=250)
COMMIT_WAIT = timedelta(seconds=1)
"""How long one call waits for a commit, and therefore how long the threads may take to stop."""


class ContinuousWorkers:
    """*count* threads for batches, separate from the threads of statements and full refreshes.

    *watch* is used as in `Workers`.
    """

    def __init__(self, services: TableServices, *, count: int, watch: Watch | None = None) -> None:
        self._signal, self._clock, self._engine = services.signal, services.clock, services.engine
        self._wake = threading.Event()
        services.signal.also_set(self._wake)
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="continuous")
        self._upkeep = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compaction")
        self._watcher = SourceWatcher(
            services, submit=self._submit, beside=self._compact, watch=watch, read_every=READ_EVERY
        )
        self._loops = (
            BackgroundLoop("source-watcher", self._poll, clock=services.clock),
            BackgroundLoop("commits", self._wait_for_commit, clock=services.clock),
            BackgroundLoop(
                "continuous-leases",
                self._watcher.renew_leases,
                clock=services.clock,
                every=services.settings.lease / RENEWALS_PER_LEASE,
            ),
        )

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    def end(self) -> None:
        """Begin no more batches. Running batches continue."""
        for loop in self._loops[:2]:
            loop.end()
        self._signal.set()

    def stop(self, timeout_s: float) -> None:
        """Begin no more batches, wait up to *timeout_s* for those running, and end the continuous runs.

        Harmless if nothing was started.
        """
        deadline = time.monotonic() + timeout_s
        polling, listening, renewing = self._loops
        self.end()
        polling.join(_remaining(deadline))
        self._pool.shutdown(wait=False)
        self._upkeep.shutdown(wait=False, cancel_futures=True)
        self._signal.wait(lambda: not self._watcher.is_busy(), _remaining(deadline))
        self._watcher.end("the gateway stops")
        renewing.end()
        renewing.join(_remaining(deadline))
        listening.join(_remaining(deadline))

    def _submit(self, work: Callable[[], None]) -> None:
        self._pool.submit(attempt, "a continuous refresh", work)

    def _compact(self, work: Callable[[], None]) -> None:
        # A batch may still run after `stop`, when the pool no longer accepts work.
        with suppress(RuntimeError):
            self._upkeep.submit(attempt, "a compaction", work)

    def _poll(self) -> None:
        self._wake.clear()
        next_poll = self._watcher.poll()
        self._wake.wait(max(0.0, (next_poll - self._clock.elapsed()).total_seconds()))

    def _wait_for_commit(self) -> None:
        """Wait for a commit of this engine to a watched source, then wake only the source watcher."""
        if not self._watcher.watches_any or not self._engine.state.ready():
            self._clock.wait(COMMIT_WAIT, self._loops[1].ending)
            return
        # The loop tries again once the engine is ready.
        with suppress(EngineUnavailable):
            source = self._engine.sources.next_commit(COMMIT_WAIT.total_seconds())
            if source is not None and self._watcher.notify(source):
                self._wake.set()


def _remaining(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
