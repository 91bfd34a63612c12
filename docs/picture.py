"""Draws docs/images/demo.svg from a real run of the demo: `python docs/picture.py`, or `make picture`."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from mt_core.demo.board import TITLE  # noqa: E402
from mt_core.demo.run import run_demo  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "demo.svg"
WIDTH = 132
_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> int:
    """Run the demo, draw what it showed at the end if every answer was right, and return its exit code."""
    console = Console(record=True, width=WIDTH)
    code = run_demo(console, keep=False)
    if code == 0:
        PICTURE.write_text(drawn(console.export_text(styles=True)), encoding="utf-8")
    return code


def drawn(output: str) -> str:
    """Return the SVG of the demo's *output* from its table on:
    what comes before and after names folders of the machine.
    """
    lines = output.splitlines()
    first = next(number for number, line in enumerate(lines) if TITLE in line)
    last = max(number for number, line in enumerate(lines) if "verified" in line)
    console = Console(record=True, width=WIDTH, file=StringIO())
    for line in lines[first : last + 1]:
        console.print(Text.from_ansi(line), soft_wrap=True)
    # Without the fonts that would be fetched from another server: the reader's own do.
    return _FONT_FACES.sub("", console.export_svg(title="make demo", unique_id="demo"))


if __name__ == "__main__":
    sys.exit(main())
