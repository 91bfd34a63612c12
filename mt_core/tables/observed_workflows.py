"""Sightings: the last that was seen of each workflow in its scheduler."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime

from mt_core.tables.keeper import KeeperReport


class Sightings:
    """What was seen of workflows, by table id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[datetime, KeeperReport]] = {}

    def note(self, at: datetime, states: Mapping[str, KeeperReport]) -> None:
        """Remember what was seen when the tables had been read at *at*."""
        with self._lock:
            self._seen |= {table_id: (at, state) for table_id, state in states.items()}

    def of(self, table_id: str) -> tuple[datetime, KeeperReport] | None:
        """Return when the workflow was seen last, and how; None if it never was."""
        with self._lock:
            return self._seen.get(table_id)
