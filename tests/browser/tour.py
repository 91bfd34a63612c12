"""`python -m tests.browser.tour --out DIR`: opens every view of the page in Chromium and leaves pictures.

Every situation of the gateway is started in turn, and each of its views is opened in light, in dark and on a
phone. The exit code is 1 if a view wrote to the console, asked another host, answered with an error, has what
axe finds serious, or must be scrolled sideways. At the end the list of tables is timed with 1,000 and 10,000
tables; a time above its goal is marked, and does not change the exit code, since it depends on the machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.browser.browser import PHONE, WIDE, Theme, Visit, Visits, chromium
from tests.browser.gateways import shown_gateway
from tests.browser.views import ERRORS, SITUATIONS, Situation
from tests.installed_tools import PACKAGES, install_command, missing

LOOKS: Sequence[tuple[str, Theme, tuple[int, int]]] = (
    ("light", "light", WIDE),
    ("dark", "dark", WIDE),
    ("phone", "light", PHONE),
)
TIMED_TABLES = (1_000, 10_000)
TIMES = 7
GOAL_MS = 300
REFUSED = (400, 403, 404)
LONGEST_PICTURE = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The milliseconds of opening a page: to the end of the answer, and to DOMContentLoaded."""

    answered: float
    ready: float

    @classmethod
    def of(cls, visit: Visit) -> Timing:
        answered, ready = visit.page.evaluate(
            "(({responseEnd, requestStart, domContentLoadedEventEnd}) => "
            "[responseEnd - requestStart, domContentLoadedEventEnd])"
            "(performance.getEntriesByType('navigation')[0])"
        )
        return cls(answered=answered, ready=ready)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one view looked once: its timing, and what was wrong, in words."""

    situation: str
    view: str
    look: str
    timing: Timing
    wrong: Sequence[str]


def tour(visits: Visits, out: Path, situations: Iterable[str]) -> Iterator[Look]:
    """Yield each look at the views of these situations, and write a picture of each into *out*."""
    for name in situations:
        situation = SITUATIONS[name]
        with TemporaryDirectory() as folder, situation.start(Path(folder)) as gateway:
            for view, path in views_of(name).items():
                for look, theme, size in LOOKS:
                    with visits.visit(gateway.url, theme=theme, size=size, token=situation.token) as visit:
                        yield _look(visit, path, (name, view, look), out, situation)


def views_of(name: str) -> dict[str, str]:
    """Return the paths of a situation by the names of its views; the errors are views of `tables`."""
    return {**SITUATIONS[name].views, **(ERRORS if name == "tables" else {})}


def _look(visit: Visit, path: str, names: tuple[str, str, str], out: Path, situation: Situation) -> Look:
    refusals = names[1] in ERRORS or bool(situation.token)
    visit.expect(*(REFUSED if refusals else ()))
    page = visit.open(path)
    timing = Timing.of(visit)
    page.wait_for_load_state("networkidle")
    wide = ["it must be scrolled sideways"] if visit.is_wider_than_its_window() else []
    wrong = [*visit.faults, *wide, *(f"axe: {each}" for each in visit.serious())]
    # A page of some thousand pixels is enough to look at.
    is_short = page.evaluate("document.documentElement.scrollHeight") <= LONGEST_PICTURE
    visit.picture(out / f"{'-'.join(names)}.png", whole=is_short)
    # They are reported with the others, and so do not end the tour.
    visit.faults.clear()
    situation_name, view, look = names
    return Look(situation=situation_name, view=view, look=look, timing=timing, wrong=wrong)


def timed(visits: Visits, tables: int) -> Timing:
    """Return the median times of opening the list with so many tables, after the first."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        gateway = stack.enter_context(shown_gateway(Path(folder), tables=tables))
        visit = stack.enter_context(visits.visit(gateway.url))
        visit.open("/ui/")
        every = []
        for _ in range(TIMES):
            visit.open("/ui/")
            every.append(Timing.of(visit))
    return Timing(
        answered=median(each.answered for each in every), ready=median(each.ready for each in every)
    )


def shown(looks: Sequence[Look]) -> Table:
    """Return the looks as a table with a row for each view."""
    table = Table("situation", "view", "look", title="Milliseconds from the start of opening")
    for heading in ("answered", "ready"):
        table.add_column(heading, justify="right")
    table.add_column("wrong", overflow="fold")
    for each in looks:
        table.add_row(
            each.situation,
            each.view,
            each.look,
            f"{each.timing.answered:.0f}",
            f"{each.timing.ready:.0f}",
            escape("\n".join(each.wrong)),
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tour, print what it found, and return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.browser.tour", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("situations", nargs="*", metavar="situation", help=f"of {', '.join(SITUATIONS)}")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to leave the pictures")
    parser.add_argument("--no-timing", action="store_true", help="do not time 1,000 and 10,000 tables")
    chosen = parser.parse_args(arguments)
    if unknown := sorted(set(chosen.situations) - set(SITUATIONS)):
        parser.error(f"There is no situation {', '.join(unknown)}.")
    if "chromium" in missing():
        parser.error(f"It needs {PACKAGES['chromium'].programs[0]}: {install_command(['chromium'])}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    looks = []
    with chromium() as visits:
        for look in tour(visits, chosen.out, chosen.situations or SITUATIONS):
            looks.append(look)
            for wrong in look.wrong:
                console.print(f"{look.situation}/{look.view}/{look.look}: {escape(wrong)}", soft_wrap=True)
        console.print(shown(looks))
        for tables in () if chosen.no_timing else TIMED_TABLES:
            timing = timed(visits, tables)
            goal = "met" if timing.ready < GOAL_MS else "missed"
            console.print(
                f"{tables:,} tables: answered after {timing.answered:.0f} ms, DOMContentLoaded after "
                f"{timing.ready:.0f} ms (goal {GOAL_MS} ms: {goal})"
            )
    wrong_looks = sum(bool(each.wrong) for each in looks)
    console.print(f"{len(looks)} looks, {wrong_looks} with faults; pictures in {chosen.out}")
    return 1 if wrong_looks else 0


if __name__ == "__main__":
    sys.exit(main())
