"""Statements in the background, which continue while the user types others and can be resumed later."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from mt_core.errors import MtError, RequestInvalid
from mt_core.terminal.display import Display

_SHOWN = 60


class PutAside(BaseException):
    """Raised by Ctrl-Z. The running statement continues in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewed:
    """What the user saw of a result.

    `rows` is the number of rows read, `is_whole` whether those were all, and `page` the last page as lines of
    text.
    """

    rows: int
    is_whole: bool
    page: Sequence[str] = ()
    error: MtError | None = None


class Look(Protocol):
    """A view of a result."""

    def look(self) -> Viewed:
        """Show the view until the user leaves it. Raises PutAside, after which it can be shown again."""

    def close(self) -> None:
        """Stop reading the result."""


@dataclass(kw_only=True)
class Work:
    """A started statement: its operation on the gateway, and the view of its result, if any.

    `written` is the number of rows that the statement wrote, or None if unknown.
    """

    statement: str
    operation: str
    display: Display
    look: Look | None = None
    written: int | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The number of seconds since the statement was sent."""
        return time.monotonic() - self.began

    @property
    def title(self) -> str:
        """The beginning of the statement, on one line."""
        line = " ".join(self.statement.split())
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


class Background:
    """The statements in the background, numbered from 1."""

    def __init__(self) -> None:
        self._works: dict[int, Work] = {}

    def __iter__(self) -> Iterator[tuple[int, Work]]:
        return iter(list(self._works.items()))

    def __len__(self) -> int:
        return len(self._works)

    def put(self, work: Work) -> int:
        """Add *work* and return its number."""
        number = max(self._works, default=0) + 1
        self._works[number] = work
        return number

    def take(self, number: str) -> Work:
        """Remove and return the statement with *number*, or the last one added if it is empty.

        Raises RequestInvalid.
        """
        if not self._works:
            raise RequestInvalid("No statement is in the background; Ctrl-Z puts one there while it runs.")
        selected = number or str(max(self._works))
        if not selected.isdecimal() or int(selected) not in self._works:
            raise RequestInvalid(rf"There is no statement {selected} in the background; \jobs lists them.")
        return self._works.pop(int(selected))

    def close(self) -> None:
        """Close all views and remove the statements."""
        for _, work in self:
            if work.look is not None:
                work.look.close()
        self._works.clear()


@contextmanager
def ctrl_z_puts_aside() -> Iterator[None]:
    """Make Ctrl-Z raise PutAside in the block instead of stopping the client."""
    with _handling({signal.SIGTSTP: _put_aside}):
        yield


@contextmanager
def ctrl_z_refused(refuse: Callable[[], None]) -> Iterator[None]:
    """Make Ctrl-Z call *refuse* in a block in which it would put a statement in the background.

    A gateway returns each page of a result only once, so an interrupted print cannot start again.
    """
    puts_aside = signal.getsignal(signal.SIGTSTP) is _put_aside
    with _handling({signal.SIGTSTP: lambda number, frame: refuse()} if puts_aside else {}):
        yield


def _put_aside(number: int, frame: object) -> None:
    raise PutAside


@contextmanager
def keys_held_back() -> Iterator[list[type[BaseException]]]:
    """Defer Ctrl-C and Ctrl-Z until after the block, and yield the list of the deferred exceptions.

    A second key press raises its exception immediately. Keys are deferred because a statement that is being
    sent has no operation yet that could be cancelled.
    """
    held: list[type[BaseException]] = []

    def hold(number: int, frame: object) -> None:
        raised = PutAside if number == signal.SIGTSTP else KeyboardInterrupt
        if held:
            raise raised
        held.append(raised)

    numbers = [signal.SIGINT]
    if signal.getsignal(signal.SIGTSTP) is _put_aside:
        numbers.append(signal.SIGTSTP)
    with _handling(dict.fromkeys(numbers, hold)):
        yield held


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit in the block on SIGHUP and SIGTERM, so that sessions are closed.

    Signals that are ignored, as under nohup, stay ignored.
    """

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGHUP, signal.SIGTERM)
    with _handling({number: end for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}):
        yield


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    """Install signal handlers for the block, but only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
