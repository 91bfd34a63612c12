"""The screen of a pseudo terminal, as a user sees it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

from tests.support.terminal import COLUMNS, ROWS, WAIT_S, Terminal

_MODE = re.compile(r"\x1b\[\?([0-9]+)([hl])")
# Line wrapping, cursor blinking and cursor visibility.
_ON_AT_FIRST = {"7", "12", "25"}


class _Answering(pyte.Screen):
    """A screen that answers a program's queries to its terminal, such as for the cursor position."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, ROWS)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class ScreenTerminal(Terminal):
    """A terminal with a screen that tests can read."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        super().__init__(command, environ)
        self._screen = _Answering(self.type)
        self._stream = pyte.ByteStream(self._screen)
        self._drawn = 0

    @property
    def raw(self) -> str:
        """All output, including control sequences."""
        return self._raw.decode(errors="replace")

    @property
    def modes_left_on(self) -> set[str]:
        """The terminal modes that a program switched on and did not switch off.

        Examples are pasting, alternate screen, mouse and cursor keys.
        """
        switched = {number: way for number, way in _MODE.findall(self.raw) if number not in _ON_AT_FIRST}
        return {number for number, way in switched.items() if way == "h"}

    @property
    def lines(self) -> list[str]:
        """The lines of the screen without trailing blanks, up to the last non-empty line."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")

    def resize(self, rows: int, columns: int) -> None:
        """Resize the terminal window."""
        self._screen.resize(rows, columns)
        self._set_size(rows, columns)

    def look(self, line: int, column: int) -> tuple[str, str, bool]:
        """Return the character at a position counted from 0, its colour, and whether it is bold."""
        cell = self._screen.buffer[line][column]
        return cell.data, cell.fg, cell.bold

    def see(self, fits: Callable[[list[str]], bool], timeout_s: float = WAIT_S) -> list[str]:
        """Return the lines of the screen when they *fit*. Fails with the actual lines on timeout."""
        deadline = time.monotonic() + timeout_s
        while not fits(self.lines):
            assert self._read(deadline), "the screen stayed:\n" + "\n".join(self.lines)
        return self.lines

    def _read(self, deadline: float) -> bool:
        got = super()._read(deadline)
        self._stream.feed(self._raw[self._drawn :])
        self._drawn = len(self._raw)
        return got
