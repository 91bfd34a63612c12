"""The end of an embedded gateway: when its last client has left and no work remains.

It also ends when its home folder is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mt_core.terminal.presence import Presence

log = logging.getLogger(__name__)


class LastClient:
    """Calls *end* when no client is present and no *work* remains.

    From then on, new clients wait for this process to end. The gateway also ends if its home folder was
    removed, because clients can no longer find it.
    """

    def __init__(self, presence: Presence, *, work: Callable[[], str], end: Callable[[], object]) -> None:
        self._presence, self._work, self._end = presence, work, end

    def check(self) -> None:
        """End the gateway if its home folder was removed, or if no client is connected and no work runs.

        Clients may connect and leave between checks.
        """
        if not self._presence.has_home:
            log.warning("the home folder was removed", extra={"action": "home_removed"})
            self._end()
            return
        if not self._presence.exclude():
            return
        ends = False
        try:
            ends = not self._work()
        finally:
            if not ends:
                self._presence.release()
        if ends:
            log.info("the last client has gone, and nothing runs", extra={"action": "last_client"})
            self._end()
