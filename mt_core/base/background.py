"""Background work that survives exceptions: each is logged with its traceback, and the work is repeated."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mt_core.base.backoff import pause_after
from mt_core.base.request_id import request_id, working_for
from mt_core.clock import Clock

FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=10)
_AT_ONCE = timedelta(0)

log = logging.getLogger(__name__)


def attempt(name: str, work: Callable[[], object]) -> bool:
    """Do *work* and return whether it succeeded; log any exception under *name*."""
    try:
        work()
    except Exception:
        log.exception("%s failed", name, extra={"action": "background_failed", "work": name})
        return False
    return True


def error_of(work: Callable[[], object]) -> Exception | None:
    """Do *work* and return the exception that it raised, or None if it succeeded."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - returned to the caller
        return error
    return None


def start_thread(
    name: str, work: Callable[[], object], on_error: Callable[[Exception], object] | None = None
) -> None:
    """Do *work* once in a new thread, for the same request as this thread.

    An exception that it raises is passed to *on_error*, or logged under *name*.
    """
    identity = request_id()

    def run() -> None:
        with working_for(identity):
            if on_error is None:
                attempt(name, work)
            elif (error := error_of(work)) is not None:
                on_error(error)

    threading.Thread(target=run, name=name, daemon=True).start()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """How a loop fares: `failures` is the number of failed passes since the last success at `succeeded_at`.

    `succeeded_at` is None if no pass has succeeded. `every` is zero for a loop whose work itself waits.
    `all_failures` is the number of failed passes since the loop began.
    """

    name: str
    every: timedelta
    succeeded_at: datetime | None
    failures: int
    all_failures: int = 0


class BackgroundLoop:
    """A thread that repeats *work* and pauses for *every* before each pass; an exception never ends it.

    After an exception the pause is one second. It doubles with each further exception, up to *every*. Without
    *every*, the work itself waits until there is something to do. `ending` is set when `end` is called.
    """

    def __init__(
        self, name: str, work: Callable[[], object], *, clock: Clock, every: timedelta = _AT_ONCE
    ) -> None:
        self.name = name
        self._work, self._clock, self._every = work, clock, every
        self._failures = self._all_failures = 0
        self._succeeded_at: datetime | None = None
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, unless `end` has already been called."""
        if not self.ending.is_set():
            self._thread.start()

    @property
    def state(self) -> LoopState:
        return LoopState(
            name=self.name,
            every=self._every,
            succeeded_at=self._succeeded_at,
            failures=self._failures,
            all_failures=self._all_failures,
        )

    def attempt(self) -> bool:
        """Do the work once and return whether it succeeded; log any exception."""
        succeeded = attempt(self.name, self._work)
        if succeeded:
            self._failures, self._succeeded_at = 0, self._clock.now()
        else:
            self._failures, self._all_failures = self._failures + 1, self._all_failures + 1
        return succeeded

    def end(self) -> None:
        """Stop after the current pass, without waiting for it; the work itself may call this."""
        self.ending.set()

    def join(self, timeout_s: float) -> bool:
        """Wait up to *timeout_s* for the thread to end; return whether it has ended or was never started."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self.ending.is_set():
            pause = self._every
            if self._failures:
                longest = self._every or LONGEST_PAUSE
                pause = pause_after(self._failures, first=FIRST_PAUSE, longest=longest)
            if not self._clock.wait(pause, self.ending):
                self.attempt()
