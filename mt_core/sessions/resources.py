"""What a session has added to Spark: jars."""

from __future__ import annotations

import threading


class SessionResources:
    """Jars of one session, in the order in which they were added; RESET leaves them alone. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jars: dict[str, None] = {}

    @property
    def jars(self) -> list[str]:
        with self._lock:
            return list(self._jars)

    def add_jar(self, path: str) -> None:
        with self._lock:
            self._jars[path] = None
