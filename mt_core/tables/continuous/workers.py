"""The threads of continuous refresh: one looks out, one wakes it, some carry out batches, one compacts,
one renews leases.
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
from mt_core.tables.continuous.lookout import LookOut
from mt_core.tables.refresh.workers import RENEWALS_PER_LEASE, Watch
from mt_core.tables.services import TableServices

READ_EVERY = timedelta(milliseconds=250)
HEAR_FOR = timedelta(seconds=1)
"""How long the engine is asked for a commit at a time: the threads stop no later."""


class ContinuousWorkers:
    """`count` threads for batches, so that statements and full refreshes have theirs.

    `watch` as for `Workers`.
    """

    def __init__(self, services: TableServices, *, count: int, watch: Watch | None = None) -> None:
        self._signal, self._clock, self._engine = services.signal, services.clock, services.engine
        self._wake = threading.Event()
        services.signal.sets_also(self._wake)
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="continuous")
        self._upkeep = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compaction")
        self._lookout = LookOut(
            services, submit=self._submit, beside=self._compact, watch=watch, read_every=READ_EVERY
        )
        self._loops = (
            BackgroundLoop("look-out", self._look, clock=services.clock),
            BackgroundLoop("commits", self._hear, clock=services.clock),
            BackgroundLoop(
                "continuous-leases",
                self._lookout.look_after,
                clock=services.clock,
                every=services.settings.lease / RENEWALS_PER_LEASE,
            ),
        )

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    def end(self) -> None:
        """Begin no batch; those at work go on."""
        for loop in self._loops[:2]:
            loop.end()
        self._signal.set()

    def stop(self, timeout_s: float) -> None:
        """Begin no batch, let those at work finish for *timeout_s*, and end the stretches;
        harmless when nothing was started.
        """
        deadline = time.monotonic() + timeout_s
        looking, hearing, renewing = self._loops
        self.end()
        looking.join(_left(deadline))
        self._pool.shutdown(wait=False)
        self._upkeep.shutdown(wait=False, cancel_futures=True)
        self._signal.wait(lambda: not self._lookout.is_busy(), _left(deadline))
        self._lookout.end("the gateway stops")
        renewing.end()
        renewing.join(_left(deadline))
        hearing.join(_left(deadline))

    def _submit(self, work: Callable[[], None]) -> None:
        self._pool.submit(attempt, "a continuous refresh", work)

    def _compact(self, work: Callable[[], None]) -> None:
        # Batches that still run after `stop` compact nothing.
        with suppress(RuntimeError):
            self._upkeep.submit(attempt, "a compaction", work)

    def _look(self) -> None:
        self._wake.clear()
        again = self._lookout.look()
        self._wake.wait(max(0.0, (again - self._clock.elapsed()).total_seconds()))

    def _hear(self) -> None:
        """Wake the look-out, and no other thread, when the engine has committed rows to a source
        of one of its tables.
        """
        if not self._lookout.keeps_any or not self._engine.state.ready():
            self._clock.wait(HEAR_FOR, self._loops[1].ending)
            return
        # The engine is asked again when it is ready.
        with suppress(EngineUnavailable):
            source = self._engine.sources.next_commit(HEAR_FOR.total_seconds())
            if source is not None and self._lookout.hears(source):
                self._wake.set()


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
