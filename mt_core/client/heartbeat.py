"""The thread that keeps a session open: a gateway closes sessions that it hears nothing of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakMethod

# Flink's own client sends one a minute; a gateway closes an idle session after ten, by default.
HEARTBEAT_S = 60.0


class Heartbeat:
    """Calls a bound method at every interval while its object lives; started once, by the first `start`."""

    def __init__(self, beat: Callable[[], None], every_s: float) -> None:
        self._beat, self._every_s = WeakMethod(beat), every_s
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to beat; harmless when it has begun."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                arguments = self._stop, self._beat, self._every_s
                # Not a method: the thread of a client that was dropped without being closed must not keep it alive.
                self._thread = threading.Thread(target=_run, args=arguments, name="heartbeat", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End it for good."""
        self._stop.set()


def _run(stop: threading.Event, beat: WeakMethod[Callable[[], None]], every_s: float) -> None:
    while not stop.wait(every_s):
        call = beat()
        if call is None:
            return
        try:
            call()
        except RuntimeError:
            # httpx refuses what is sent on a client that was closed in the middle of the beat.
            if not stop.is_set():
                raise
        del call
