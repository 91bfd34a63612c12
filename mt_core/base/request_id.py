"""The id of the HTTP request that the current thread works for.

The log names it in each line, and clients get it in a header, so a user's report leads to the lines of the
log. Python does not pass it on to new threads: work that continues in another thread sets it there again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CURRENT: ContextVar[str] = ContextVar("freshtable.request_id", default="")


def request_id() -> str:
    """Return the id of the request that this thread works for, or "" if it works for none."""
    return _CURRENT.get()


@contextmanager
def working_for(identity: str) -> Iterator[None]:
    """Do the work of the block for the request with this id ("": for none)."""
    token = _CURRENT.set(identity)
    try:
        yield
    finally:
        _CURRENT.reset(token)
