"""The terminal examples in docs/client.md."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.client_screen import PROMPT

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"


def block(of: str) -> str:
    """Return the terminal block on the page that contains *of*. There must be exactly one."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    [found] = [each for each in blocks if of in each and each.startswith((PROMPT, "$"))]
    return str(found)


def transcript(of: str) -> list[tuple[str, list[str]]]:
    """Return the inputs in the block that contains *of*, each with its output on the page."""
    parts = [part.splitlines() for part in block(of).split(f"{PROMPT} ")[1:]]
    return [(lines[0], lines[1:]) for lines in parts]
