"""Name locks: storage is made and removed by its name, which a dropped table and a new one can share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mt_core.model.table import TableIdentifier

_STRIPES = 64


class NameLocks:
    """One at a time for each name; others hardly ever wait. Thread-safe."""

    def __init__(self) -> None:
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]

    @contextmanager
    def alone(self, identifier: TableIdentifier) -> Iterator[None]:
        with self._stripes[hash(identifier) % _STRIPES]:
            yield
