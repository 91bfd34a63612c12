"""Deadlines: an operation that exceeds its time limit becomes TIMEOUT."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import weakref
from collections.abc import Mapping
from datetime import timedelta

from mt_core.base.background import BackgroundLoop
from mt_core.base.request_id import working_for
from mt_core.clock import Clock
from mt_core.config.settings import BY_KEY
from mt_core.config.values import value_of
from mt_core.errors import ConfigError, MtError, RequestInvalid, StatementTimedOut
from mt_core.sessions.operations.operation import TERMINAL, Operation
from mt_core.sessions.properties.property_values import TIMEOUT_KEY

log = logging.getLogger(__name__)

_NEVER = timedelta(0)
_LONGEST_MS = 36_500 * 86_400_000
_SWEEP_ABOVE = 1024
_END_S = 10.0


def limit_of(properties: Mapping[str, str], requested_ms: int) -> timedelta:
    """Return the shorter of the time limits of the request and the session; 0 means no limit.

    Raises RequestInvalid if the session's `execution.timeout` is not a duration.
    """
    requested, limit, text = (
        timedelta(milliseconds=min(requested_ms, _LONGEST_MS)),
        _NEVER,
        properties.get(TIMEOUT_KEY, ""),
    )
    if text.strip():
        try:
            value = value_of(BY_KEY[TIMEOUT_KEY], text, "the session")
        except ConfigError as cause:
            raise RequestInvalid(str(cause)) from cause
        limit = value if isinstance(value, timedelta) else _NEVER
    return min((each for each in (requested, limit) if each > _NEVER), default=_NEVER)


# A deadline is an elapsed time, which clock adjustments do not affect. The reference is weak, so that a
# deadline does not keep an ended operation in memory.
_Waiting = tuple[timedelta, int, timedelta, weakref.ref[Operation]]


class Deadlines:
    """Times out operations at their deadlines, in a separate thread that starts on demand. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._numbers = itertools.count()
        self._waiting: list[_Waiting] = []
        self._sweep_above = _SWEEP_ABOVE
        self._loop: BackgroundLoop | None = None
        self._closed = False

    def watch(self, operation: Operation, limit: timedelta) -> None:
        """Time out the new *operation* after *limit*, unless it ends earlier."""
        with self._lock:
            heapq.heappush(
                self._waiting,
                (self._clock.elapsed() + limit, next(self._numbers), limit, weakref.ref(operation)),
            )
            if len(self._waiting) > self._sweep_above:
                # Remove operations that ended before their deadlines.
                self._waiting = [
                    each
                    for each in self._waiting
                    if (other := each[3]()) and (other.status not in TERMINAL or other.querying)
                ]
                heapq.heapify(self._waiting)
                self._sweep_above = max(_SWEEP_ABOVE, 2 * len(self._waiting))
            if self._loop is None and not self._closed:
                self._loop = BackgroundLoop("deadlines", self._end_late, clock=self._clock)
                self._loop.start()
        self._changed.set()

    def close(self) -> None:
        """Stop the thread. Deadlines have no effect afterwards."""
        with self._lock:
            self._closed, loop = True, self._loop
        if loop is not None:
            loop.end()
            self._changed.set()
            loop.join(_END_S)

    def _end_late(self) -> None:
        """Wait for the next deadline and time out the operations that have reached theirs."""
        with self._lock:
            next_deadline = self._waiting[0][0] if self._waiting else None
        if next_deadline is None:
            self._clock.wait_until(None, self._changed)
        else:
            self._clock.wait(next_deadline - self._clock.elapsed(), self._changed)
        self._changed.clear()
        now = self._clock.elapsed()
        # Remove one operation at a time, so that an error leaves the others for the next call.
        while True:
            with self._lock:
                if not self._waiting or self._waiting[0][0] > now:
                    return
                _, _, limit, reference = heapq.heappop(self._waiting)
            if operation := reference():
                with working_for(operation.request_id):
                    _time_out(operation, limit)


def _time_out(operation: Operation, limit: timedelta) -> None:
    seconds = f"{limit.total_seconds():.3f}".rstrip("0").rstrip(".")
    error = StatementTimedOut(
        f"Operation {operation.handle} took longer than {seconds} s, its time limit; "
        f"raise executionTimeout or {TIMEOUT_KEY}, whichever is shorter."
    )
    try:
        operation.time_out(error)
    except MtError:
        # The status is TIMEOUT already; only the call to the engine failed.
        log.warning(
            "a late statement could not be stopped", extra={"action": "timeout_stop_failed"}, exc_info=True
        )
