"""A fair lock: threads acquire it in the order in which they asked for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from mt_core.errors import RegistryError


class Turns:
    """A fair lock: a thread that acquires it often cannot overtake threads that are waiting."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._holder: int | None = None

    @contextmanager
    def take(self, timeout_s: float, what: str) -> Iterator[None]:
        """Wait until it is this thread's turn, and hold the lock during the block.

        Raises RegistryError naming *what* after *timeout_s*, and immediately if the thread already holds the
        lock.
        """
        if self._holder == threading.get_ident():
            raise RegistryError(f"Registry {what}: this thread is already in a transaction; end it first.")
        turn = threading.Event()
        with self._guard:
            self._waiting.append(turn)
            if self._waiting[0] is turn:
                turn.set()
        try:
            if not turn.wait(timeout_s):
                raise RegistryError(
                    f"Registry {what} is busy: no turn within {timeout_s:g} s; try again later."
                )
            self._holder = threading.get_ident()
            yield
        finally:
            if self._holder == threading.get_ident():
                self._holder = None
            with self._guard:
                self._waiting.remove(turn)
                if self._waiting:
                    self._waiting[0].set()
