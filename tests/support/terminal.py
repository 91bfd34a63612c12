"""A program in a pseudo terminal as a user sees it: typed input, and output up to a given point."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

WAIT_S = 180.0
PROMPT = r"Flink SQL> $"
ROWS, COLUMNS = 50, 200
# If these are set, a program does not ask its terminal. Tools that run tests in several processes set them.
_SIZE = {"LINES", "COLUMNS"}
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_L = "\x0c"
CTRL_Z = "\x1a"
TAB = "\t"
# Colours, cursor moves, titles and modes, which a terminal obeys and does not show.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78]|\x07")


def plain(text: str) -> str:
    """Return *text* without control sequences."""
    return _CONTROLS.sub("", text).replace("\r", "")


class Terminal:
    """A program whose standard streams are a terminal of its own. `shown` is all its output."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._controller, terminal = pty.openpty()
        self._set_size(ROWS, COLUMNS)
        self._process = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**{name: value for name, value in environ.items() if name not in _SIZE}, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=_become_child_of_a_terminal,
        )
        os.close(terminal)
        self._raw = b""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._controller)

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    @property
    def shown(self) -> str:
        """All output so far as text."""
        return plain(self._raw.decode(errors="replace"))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._controller, text.encode())

    def enter(self, line: str, until: str = PROMPT) -> str:
        """Type *line* and Enter. Return the output from then on until it matches *until*."""
        self.type(f"{line}\r")
        return self.wait_for(until)

    def wait_for(self, pattern: str, timeout_s: float = WAIT_S) -> str:
        """Return the output since the last wait when it matches *pattern*.

        Fails with all output on timeout.
        """
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, self._new()):
            assert self._read(deadline), f"never saw {pattern!r} in:\n{self.shown}"
        new = self._new()
        self._seen = len(self._raw)
        return new

    def wait_end(self, timeout_s: float = WAIT_S) -> int:
        """Wait for the end of the program and return its exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read(deadline):
            pass
        return self._process.wait(timeout_s)

    def _set_size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _new(self) -> str:
        return plain(self._raw[self._seen :].decode(errors="replace"))

    def _read(self, deadline: float) -> bool:
        """Read available output. Return False at the end."""
        ready, _, _ = select.select([self._controller], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            got = os.read(self._controller, 65536)
        except OSError:
            # Linux reports in this way that the program has closed its end.
            return False
        self._raw += got
        return bool(got)


def _become_child_of_a_terminal() -> None:
    """Make the terminal the controlling terminal, and reset inherited signal dispositions.

    A shell starts background jobs with SIGINT ignored, nohup starts them with SIGHUP ignored, and children
    inherit that.
    """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
