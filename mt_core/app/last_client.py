"""The end of an embedded gateway: after its last client, once nothing goes on without one,
or with its home folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mt_core.terminal.presence import Presence

log = logging.getLogger(__name__)


class LastClient:
    """Calls *end* once no client is present and there is no *work*;
    clients wait from then on for the end of this process.

    Without its home folder the gateway ends as well: no client can find it any more.
    """

    def __init__(self, presence: Presence, *, work: Callable[[], str], end: Callable[[], object]) -> None:
        self._presence, self._work, self._end = presence, work, end

    def look(self) -> None:
        """Look once; between two looks, clients come and go."""
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
