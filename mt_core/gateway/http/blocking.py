"""Requests that wait: held on threads of their own, so that those which need no waiting always find one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request

from mt_core.rowset import RowSet
from mt_core.sessions.operations.operation import TERMINAL, Operation, OperationView

T = TypeVar("T")
MOST_HELD = 512
FEW_ROWS = 100
# How often a request that waits looks whether its client still does.
LOOK_UP_S = 1.0


class Holds:
    """Runs what blocks. `hold` is for what waits for somebody else's work, `work` for anything that is soon done."""

    def __init__(self) -> None:
        # One for each event loop: it belongs to that, and there is none before the first request.
        self._limiter = RunVar[anyio.CapacityLimiter]("held")

    async def hold(self, wait: Callable[[], T]) -> T:
        """Return what *wait* returns, which may take long."""
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = anyio.CapacityLimiter(MOST_HELD)
            self._limiter.set(limiter)
        return await anyio.to_thread.run_sync(wait, limiter=limiter)

    async def until_ended(self, operation: OperationView, request: Request) -> bool:
        """Wait until the operation is terminal, or the client has gone away; returns whether it is terminal."""
        return await self._until(operation.wait, request)

    async def until_page(self, operation: OperationView, token: int, request: Request) -> bool:
        """Wait until page *token* can be fetched without waiting, or the client has gone away; returns whether it can."""
        return await self._until(lambda timeout_s: operation.wait_page(token, timeout_s), request)

    async def _until(self, wait: Callable[[float], bool], request: Request) -> bool:
        while not (wait(0) or await self.hold(lambda: wait(LOOK_UP_S))):
            if await request.is_disconnected():
                return False
        return True

    async def work(self, step: Callable[[], T]) -> T:
        """Return what *step* returns, which takes no longer than it has to."""
        return await anyio.to_thread.run_sync(step)


def at_hand(operation: OperationView | None) -> bool:
    """Return whether an operation has ended with so little to show that a thread would cost more than the work."""
    if not isinstance(operation, Operation) or operation.status not in TERMINAL:
        return False
    rows = operation.result.rows if operation.result is not None else None
    return rows is None or (isinstance(rows, RowSet) and len(rows.rows) <= FEW_ROWS)
