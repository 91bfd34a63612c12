"""A client's session: how it was opened, the statements that changed it, and its heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self
from weakref import WeakMethod

# By default, a gateway closes a session that was idle for ten minutes. Flink's own client sends a heartbeat
# every minute.
HEARTBEAT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How to open and reopen a session: its properties, and the statements that set it up."""

    name: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


class Heartbeat:
    """Calls a bound method at intervals, from the first `start` until `stop`.

    It also stops when the method's object is garbage collected.
    """

    def __init__(self, beat: Callable[[], None], every_s: float) -> None:
        self._beat, self._every_s = WeakMethod(beat), every_s
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. Idempotent."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                arguments = self._stop, self._beat, self._every_s
                # This is a function and not a method, because the thread must not reference a client that is
                # dropped without being closed.
                self._thread = threading.Thread(target=_run, args=arguments, name="heartbeat", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop the thread permanently."""
        self._stop.set()


def _run(stop: threading.Event, beat: WeakMethod[Callable[[], None]], every_s: float) -> None:
    while not stop.wait(every_s):
        call = beat()
        if call is None:
            return
        try:
            call()
        except RuntimeError:
            # httpx raises RuntimeError if the client has been closed.
            if not stop.is_set():
                raise
        del call


class Closing:
    """A context manager that calls `close` at the end."""

    close: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
