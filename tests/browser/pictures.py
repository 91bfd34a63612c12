"""Draws the pictures of the page in docs/images: `python -m tests.browser.pictures`, or `make picture`.

The tables and their ledgers are invented, time stands still and the fonts are those of the machine, so a
machine draws the same pictures until the page changes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

from mt_core.base.rowset import BIGINT, DOUBLE, Column, LogicalType, RowSet
from mt_core.sessions.ports import StatementResult
from tests.browser.browser import PHONE, Theme, chromium
from tests.browser.gateways import shown_gateway
from tests.browser.ledgers import NOW, ODD_NAME, TABLES, tell
from tests.browser.views import graph, table
from tests.installed_tools import install_command, missing
from tests.support.fake_statements import FakeStatementEngine

IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"
LARGEST_BYTES = 200_000
WIDTH = 1280
STATEMENT = """SELECT ds, sum(amount) AS amount, avg(amount) AS average
FROM lake.shop.orders
WHERE ds >= '2026-02-01'
GROUP BY ds
ORDER BY ds"""
DAYS = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of the page at *path*, after *act*; as tall as the page, but no taller than `height`."""

    path: str
    act: Callable[[Page], None]
    theme: Theme = "light"
    width: int = WIDTH
    height: int


def _wait_for_charts(page: Page) -> None:
    page.locator("#charts canvas").nth(1).wait_for()


def _run_statement(page: Page) -> None:
    page.locator(".CodeMirror").click()
    page.keyboard.insert_text(STATEMENT)
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Show chart").click()
    page.locator("#chart canvas").wait_for()
    # The cursor blinks.
    page.evaluate("document.activeElement.blur()")


def _open_dialog(page: Page) -> None:
    _wait_for_charts(page)
    page.get_by_role("link", name="Refresh", exact=True).click()
    page.locator("dialog[open] #dialog").wait_for()


def _nothing(_page: Page) -> None:
    return


PICTURES: Mapping[str, Picture] = {
    "page-tables": Picture(path="/ui/", act=_nothing, height=800),
    "page-table": Picture(path=table("revenue"), act=_wait_for_charts, height=1060),
    "page-graph": Picture(
        path=graph("lake.shop.daily_by_city", up=3, down=3), act=_nothing, theme="dark", height=800
    ),
    "page-sql": Picture(path="/ui/sql", act=_run_statement, height=900),
    "page-refresh": Picture(path=table("balances"), act=_open_dialog, theme="dark", height=760),
    "page-phone": Picture(path="/ui/", act=_nothing, width=PHONE[0], height=PHONE[1]),
}


def answer() -> StatementResult:
    """Return the rows of `STATEMENT`: orders of a month, more of them at weekends."""
    chance, first = random.Random(1), date(2026, 2, 1)
    rows: Sequence[list[object]] = [
        [
            (first + timedelta(days=day)).isoformat(),
            round(chance.uniform(900, 1_200) * (1.5 if (first + timedelta(days=day)).weekday() > 4 else 1)),
            round(chance.uniform(180, 260), 2),
        ]
        for day in range(DAYS)
    ]
    columns = (
        Column(name="ds", type=LogicalType(root="DATE")),
        Column(name="amount", type=BIGINT),
        Column(name="average", type=DOUBLE),
    )
    return StatementResult(is_query=True, rows=RowSet(columns=columns, rows=rows))


def draw(folder: Path) -> None:
    """Write the pictures into *folder*. Raises AssertionError if a page had a fault or a picture is large."""
    facts = partial(tell, tables=[each for each in TABLES if each.name != ODD_NAME])
    statements = FakeStatementEngine({STATEMENT: answer()})
    with ExitStack() as stack:
        home = stack.enter_context(TemporaryDirectory())
        gateway = stack.enter_context(shown_gateway(Path(home), facts, statements=statements))
        visits = stack.enter_context(chromium())
        for name, picture in PICTURES.items():
            size = (picture.width, picture.height)
            with visits.visit(gateway.url, theme=picture.theme, size=size) as visit:
                visit.page.clock.set_fixed_time(NOW)
                page = visit.open(picture.path)
                picture.act(page)
                page.wait_for_load_state("networkidle")
                page.mouse.move(0, 0)
                ends = page.evaluate(
                    "Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)"
                )
                page.set_viewport_size({"width": picture.width, "height": min(ends + 8, picture.height)})
                file = folder / f"{name}.png"
                visit.picture(file)
                assert file.stat().st_size < LARGEST_BYTES, f"{file} has {file.stat().st_size:,} bytes"


def main() -> int:
    """Draw the pictures of the page and return the exit code."""
    if "chromium" in missing():
        sys.stderr.write(f"The pictures of the page need Chromium: {install_command(['chromium'])}\n")
        return 1
    draw(IMAGES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
