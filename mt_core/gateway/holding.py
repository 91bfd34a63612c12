"""Requests that wait: held on threads of their own, so that those which need no waiting always find one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")
MOST_HELD = 512


class Holds:
    """Runs what blocks. `hold` is for what waits for somebody else's work, `work` for anything that is soon done."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None

    async def hold(self, wait: Callable[[], T]) -> T:
        """Return what *wait* returns, which may take long."""
        if self._limiter is None:
            # It belongs to an event loop, and there is none before the first request.
            self._limiter = anyio.CapacityLimiter(MOST_HELD)
        return await anyio.to_thread.run_sync(wait, limiter=self._limiter)

    async def work(self, step: Callable[[], T]) -> T:
        """Return what *step* returns, which takes no longer than it has to."""
        return await anyio.to_thread.run_sync(step)
