"""What docs/client.md shows of a terminal."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.client_screen import PROMPT

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"


def block(of: str) -> str:
    """Return the one block of a terminal on the page that has *of*."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    [found] = [each for each in blocks if of in each and each.startswith((PROMPT, "$"))]
    return str(found)


def transcript(of: str) -> list[tuple[str, list[str]]]:
    """Return what is typed at the prompt in the block that has *of*, each with the lines
    that the page shows below it.
    """
    parts = [part.splitlines() for part in block(of).split(f"{PROMPT} ")[1:]]
    return [(lines[0], lines[1:]) for lines in parts]
