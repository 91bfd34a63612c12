"""Turns: threads that want the same thing get it one after the other, first come, first served."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from mt_core.errors import RegistryError


class Turns:
    """A lock that is fair: a busy thread cannot take it again and again before the others that wait."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._holder: int | None = None

    @property
    def mine(self) -> bool:
        """Whether it is the calling thread's turn."""
        return self._holder == threading.get_ident()

    @contextmanager
    def take(self, timeout_s: float, what: str) -> Iterator[None]:
        """Wait for the turn and hold it for the block; raises RegistryError naming *what* after *timeout_s*."""
        self._acquire(timeout_s, what)
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._pass_on()

    def _acquire(self, timeout_s: float, what: str) -> None:
        turn = threading.Event()
        with self._guard:
            self._waiting.append(turn)
            if self._waiting[0] is turn:
                return
        came = False
        try:
            came = turn.wait(timeout_s)
        finally:
            if not came:
                self._leave(turn)
        if not came:
            raise RegistryError(f"Registry {what} is busy: no turn within {timeout_s:g} s; try again later.")

    def _pass_on(self) -> None:
        with self._guard:
            turn = self._waiting[0]
        self._leave(turn)

    def _leave(self, turn: threading.Event) -> None:
        with self._guard:
            self._waiting.remove(turn)
            if self._waiting:
                self._waiting[0].set()
