"""Blocking requests. Long waits use separate threads, so that short requests always find a free thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request

from mt_core.base.rowset import RowSet
from mt_core.sessions.operations.operation import TERMINAL, Operation
from mt_core.sessions.refreshes import AnyOperation

T = TypeVar("T")
MOST_HELD = 512
FEW_ROWS = 100
# How often, in seconds, a waiting request checks that its client is still connected.
LOOK_UP_S = 1.0


# A limiter belongs to one event loop.
_LONG_WAITS = RunVar[anyio.CapacityLimiter]("long_waits")


async def long_wait(wait: Callable[[], T]) -> T:
    """Return the result of *wait*, which may block for a long time, without delaying `short` steps."""
    limiter = _LONG_WAITS.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(MOST_HELD)
        _LONG_WAITS.set(limiter)
    return await anyio.to_thread.run_sync(wait, limiter=limiter)


async def short(step: Callable[[], T]) -> T:
    """Run *step*, which blocks only briefly, in a worker thread and return its result."""
    return await anyio.to_thread.run_sync(step)


async def wait_while_connected(wait: Callable[[float], bool], request: Request) -> bool:
    """Call *wait* with a timeout in seconds until it returns True.

    Return False if the client disconnects.
    """
    while not (wait(0) or await long_wait(lambda: wait(LOOK_UP_S))):
        if await request.is_disconnected():
            return False
    return True


def is_small(operation: AnyOperation | None) -> bool:
    """Return whether an operation has ended with up to `FEW_ROWS` rows, which need no other thread."""
    if not isinstance(operation, Operation) or operation.status not in TERMINAL:
        return False
    rows = operation.result.rows if operation.result is not None else None
    return rows is None or (isinstance(rows, RowSet) and len(rows.rows) <= FEW_ROWS)
