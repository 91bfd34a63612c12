"""`freshtable sql` on the screen of a pseudo terminal, with a gateway over fakes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.screen import ScreenTerminal
from tests.support.terminal import CTRL_L

PROGRAM = Path(sys.executable).parent / "freshtable"
PROMPT = "freshtable>"
Open = Callable[..., ScreenTerminal]


def at_prompt(lines: list[str]) -> bool:
    return lines[-1] == PROMPT


def watched(terminal: ScreenTerminal, line: str, fits: Callable[[list[str]], bool]) -> list[str]:
    """Type *line* on an empty screen, and return the output when the screen *fits*."""
    terminal.type(CTRL_L)
    terminal.see(lambda lines: lines == [PROMPT])
    terminal.type(f"{line}\r")
    return terminal.see(lambda lines: len(lines) > 1 and fits(lines))[1:]


def answered(terminal: ScreenTerminal, line: str) -> list[str]:
    """Type *line* on an empty screen, and return the output up to the next prompt."""
    return watched(terminal, line, at_prompt)[:-1]
