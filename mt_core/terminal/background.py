"""Statements in the background: they go on while a person types others, and are attended to again later."""

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
    """A person wants what runs to go on in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewed:
    """What a person had of a result that they looked at: so many `rows`, whether those were all,
    and the last `page` as lines.
    """

    rows: int
    is_whole: bool
    page: Sequence[str] = ()
    error: MtError | None = None


class Look(Protocol):
    """A view of a result."""

    def look(self) -> Viewed:
        """Let a person look until they leave; raises PutAside, and can be looked at again then."""

    def close(self) -> None:
        """Read no more."""


@dataclass(kw_only=True)
class Work:
    """A statement that was begun: its operation on the gateway, and the view of its result, if there is one.

    `written` is the number of rows that it wrote, None where that is not known.
    """

    statement: str
    operation: str
    display: Display
    look: Look | None = None
    written: int | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """For how long it has been there."""
        return time.monotonic() - self.began

    @property
    def title(self) -> str:
        """The beginning of the statement, on one line."""
        line = " ".join(self.statement.split())
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


class Background:
    """The statements that were put aside, by numbers from 1."""

    def __init__(self) -> None:
        self._works: dict[int, Work] = {}

    def __iter__(self) -> Iterator[tuple[int, Work]]:
        return iter(list(self._works.items()))

    def __len__(self) -> int:
        return len(self._works)

    def put(self, work: Work) -> int:
        """Keep *work*, and return its number."""
        number = max(self._works, default=0) + 1
        self._works[number] = work
        return number

    def take(self, number: str) -> Work:
        """Return a work, which is in the background no more: the one that came last if *number* is empty;
        raises RequestInvalid.
        """
        if not self._works:
            raise RequestInvalid("No statement is in the background; Ctrl-Z puts one there while it runs.")
        wanted = number or str(max(self._works))
        if not wanted.isdecimal() or int(wanted) not in self._works:
            raise RequestInvalid(
                rf"There is no statement {wanted} in the background; \jobs lists those there are."
            )
        return self._works.pop(int(wanted))

    def close(self) -> None:
        """Close all views."""
        for _, work in self:
            if work.look is not None:
                work.look.close()
        self._works.clear()


@contextmanager
def ctrl_z_puts_aside() -> Iterator[None]:
    """Have Ctrl-Z raise PutAside in the block, instead of stopping the client."""
    with _handling({signal.SIGTSTP: _put_aside}):
        yield


@contextmanager
def ctrl_z_refused(refuse: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-Z call *refuse* in the block, where it would put a statement aside.

    A gateway gives each page of a result once, so that a print cannot begin again.
    """
    puts_aside = signal.getsignal(signal.SIGTSTP) is _put_aside
    with _handling({signal.SIGTSTP: lambda number, frame: refuse()} if puts_aside else {}):
        yield


def _put_aside(number: int, frame: object) -> None:
    raise PutAside


@contextmanager
def keys_held_back() -> Iterator[list[type[BaseException]]]:
    """Have Ctrl-C and Ctrl-Z wait until after the block, as the exceptions in the list that is given.

    A second one is raised at once. A statement that is being sent has no operation yet
    that could be cancelled.
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
    """Have the block end by SystemExit when its terminal goes away or the process is asked to end:
    its sessions are closed then.

    A signal that is ignored, as by nohup, stays so.
    """

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGHUP, signal.SIGTERM)
    with _handling({number: end for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}):
        yield


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    """Have signals handled in the block; only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
