"""Metrics: the listeners and readers that fill the families, and the answer to a scrape."""

from __future__ import annotations

from mt_core.metrics.instruments import Instruments
from mt_core.tables.events import Fact


class Metrics:
    """Built by the application if the extra `metrics` is installed. Thread-safe."""

    def __init__(self) -> None:
        self.instruments = Instruments()

    def hear(self, fact: Fact) -> None:
        """Count *fact*: the listener of the events of the tables."""

    def answer(self, accept: str) -> tuple[bytes, str]:
        """Return the exposition that a request with the header *accept* gets, and its content type."""
        raise NotImplementedError
