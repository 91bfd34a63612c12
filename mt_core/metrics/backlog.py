"""The metrics of the backlog: the runs and notices that wait, read from the registry every few seconds.

A scrape does not read the registry, however often it comes: it shows what the last pass has read. A pass
reads beside the registry's transactions, by the indexes of open runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from mt_core.errors import RegistryError
from mt_core.metrics import families
from mt_core.metrics.instruments import Instruments
from mt_core.metrics.sampled import Sampled
from mt_core.tables.registry import Transaction

_SOLO = {False: "false", True: "true"}
_FAMILIES = (
    families.REFRESHES_QUEUED,
    families.REFRESHES_RUNNING,
    families.REFRESHES_WAITING,
    families.QUEUE_OLDEST,
    families.NOTICES_PENDING,
)


class BacklogGauges:
    """Shows the backlog as the last pass has read it, and nothing if the registry has failed.

    *reading* begins a read of the registry that delays no transaction. `every` is the time between passes.
    """

    every = timedelta(seconds=5)

    def __init__(
        self, instruments: Instruments, reading: Callable[[], AbstractContextManager[Transaction]]
    ) -> None:
        self._reading = reading
        self._sampled = Sampled(instruments, _FAMILIES)

    def read(self) -> None:
        """Read the backlog: one pass of a loop. Raises RegistryError."""
        try:
            with self._reading() as tx:
                runs, notices = tx.runs.backlog(), tx.notices.count()
        except RegistryError:
            self._sampled.values = {}
            raise
        self._sampled.values = {
            families.REFRESHES_QUEUED: {(text,): runs.queued.get(solo, 0) for solo, text in _SOLO.items()},
            families.REFRESHES_RUNNING: {(): runs.running},
            families.REFRESHES_WAITING: {(): runs.waiting},
            families.QUEUE_OLDEST: {(_SOLO[solo],): at.timestamp() for solo, at in runs.oldest.items()},
            families.NOTICES_PENDING: {(): notices},
        }
