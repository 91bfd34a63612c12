"""Background work that outlives its errors: whatever it raises is logged with the traceback, and it is tried again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from mt_core.clock import Clock

FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=10)
_AT_ONCE = timedelta(0)

log = logging.getLogger(__name__)


def attempt(name: str, work: Callable[[], object]) -> bool:
    """Do *work*; an error of any kind is logged as one of *name*. Returns whether there was none."""
    try:
        work()
    except Exception:
        log.exception("%s failed", name, extra={"action": "background_failed", "work": name})
        return False
    return True


def start_thread(name: str, work: Callable[[], object], on_error: Callable[[Exception], object]) -> None:
    """Do *work* once in a thread of its own; *on_error* gets the error it ends with, of whatever kind."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed on
            on_error(error)

    threading.Thread(target=run, name=name, daemon=True).start()


class BackgroundLoop:
    """A thread that does *work* again and again, a pause of *every* before each time; no error of the work ends it.

    After an error the next try follows sooner, then in ever longer pauses, up to *every*. Without *every* the work
    itself waits for what there is to do.
    """

    def __init__(self, name: str, work: Callable[[], object], *, clock: Clock, every: timedelta = _AT_ONCE) -> None:
        self.name = name
        self._work, self._clock, self._every = work, clock, every
        self._failures = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; a loop that has ended already stays ended."""
        if not self._ending.is_set():
            self._thread.start()

    def attempt(self) -> bool:
        """Do the work once; an error is logged. Returns whether there was none."""
        succeeded = attempt(self.name, self._work)
        self._failures = 0 if succeeded else self._failures + 1
        return succeeded

    @property
    def ending(self) -> bool:
        return self._ending.is_set()

    def end(self) -> None:
        """Do the work no more once it returns; the work itself may call this."""
        self._ending.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; returns whether it has ended, or never began."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._clock.wait_until(self._clock.now() + self._pause(), self._ending):
            self.attempt()

    def _pause(self) -> timedelta:
        if not self._failures:
            return self._every
        # The exponent is bounded because 2 ** 1,000 s is no timedelta.
        pause: timedelta = FIRST_PAUSE * 2 ** min(self._failures - 1, 16)
        return min(pause, self._every or LONGEST_PAUSE)
