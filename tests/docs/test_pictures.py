"""The pictures of the pages are there, and the one of the demo has what a run showed
and nothing of the machine.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.build import ROOT
from docs.picture import drawn
from mt_core.demo.board import TITLE
from tests.browser.pictures import LARGEST_BYTES, PICTURES

IMAGES = ROOT / "docs" / "images"
DRAWINGS = sorted(IMAGES.glob("*.svg"))
_SHOWN = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


def test_every_picture_that_a_page_shows_is_there_and_the_others_are_gone() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

    shown = {
        (page.parent / link).resolve() for page in pages for link in _SHOWN.findall(page.read_text("utf-8"))
    }

    assert shown == set(IMAGES.iterdir())


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_drawing_names_no_folder_and_loads_nothing(drawing: Path) -> None:
    text = drawing.read_text("utf-8")

    assert re.findall(r"/tmp/|/home/|/Users/|/root/|@font-face|@import|href=|url\(.?http", text) == []


def test_the_pictures_of_the_page_are_those_that_are_drawn_and_load_fast() -> None:
    found = {file.stem: file.stat().st_size for file in IMAGES.glob("page-*.png")}

    assert found.keys() == PICTURES.keys()
    assert [name for name, size in found.items() if size >= LARGEST_BYTES] == []


def test_the_picture_of_the_demo_begins_at_its_table_and_ends_with_its_checks() -> None:
    output = (
        f"Starting a gateway on /tmp/freshtable-demo-1 …\n{TITLE}\n"
        "\x1b[32mverified\x1b[0m daily\nStopping /tmp/x\n"
    )

    picture = drawn(output).replace("&#160;", " ")

    assert TITLE in picture
    assert "verified" in picture
    assert "/tmp" not in picture
    assert "Stopping" not in picture
